"""Networks that are trained already: photographs in, features out, each with the preprocessing it was trained for."""

from subspan.pretrained.backbone import Backbone, BackboneError, Image, Preprocessing, TorchBackbone
from subspan.pretrained.registry import DEFAULT_BACKBONE, is_packaged, list_sources, load_backbone, register_source

__all__ = [
    "DEFAULT_BACKBONE",
    "Backbone",
    "BackboneError",
    "Image",
    "Preprocessing",
    "TorchBackbone",
    "is_packaged",
    "list_sources",
    "load_backbone",
    "register_source",
]
