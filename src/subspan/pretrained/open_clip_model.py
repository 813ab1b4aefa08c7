"""The image half of a CLIP model: ``open_clip:ViT-B-32/laion2b_s34b_b79k`` (model / weights).

``open_clip:ViT-B-32@FILE`` takes the weights from a checkpoint on this disk instead of the hub.
"""

import contextlib
from collections import OrderedDict
from typing import Any

from torch import nn

from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.registry import loading, optional_import, register_source, split_file
from subspan.pretrained.without_torchvision import importable_without_torchvision


@register_source("open_clip:MODEL/WEIGHTS")
def open_clip_model(name: str, digest: str | None) -> TorchBackbone:
    """open_clip loads the weights from its cache, the hub or a file, and knows size and normalisation."""
    model, file = split_file("open_clip", name)
    weights = file
    if weights is None:
        model, _, weights = name.rpartition("/")
    if not model:
        raise BackboneError(
            f"an open_clip backbone is named open_clip:MODEL/WEIGHTS or open_clip:MODEL@FILE; got 'open_clip:{name}'"
        )
    _let_transformers_look()
    with optional_import(f"open_clip:{name}", "pip install open_clip_torch"), importable_without_torchvision():
        import open_clip  # pyright: ignore[reportMissingImports]
    if model not in open_clip.list_models():
        raise BackboneError(f"open_clip knows no model '{model}'; open_clip.list_models() lists what it knows")
    known = open_clip.list_pretrained_tags_by_model(model)
    if file is None and weights not in known:
        raise BackboneError(
            f"open_clip knows no weights '{weights}' of '{model}'; it knows {', '.join(known) or 'none'}"
        )
    with loading("open_clip", name):
        visual: Any = open_clip.create_model(model, pretrained=str(weights)).visual
    placed = f"open_clip:{name}" if file is None else f"open_clip:{model}@{file}"
    half = nn.Sequential(OrderedDict(visual=visual))  # so named, its weights have the digest that models keep
    return TorchBackbone(placed, half, preprocessing_of(visual.preprocess_cfg, name), digest)


def _let_transformers_look() -> None:
    """open_clip imports transformers, which asks once whether torchvision is there: it must not find ours."""
    with contextlib.suppress(ImportError, AttributeError):
        from transformers.utils import is_torchvision_available  # pyright: ignore[reportMissingImports]

        is_torchvision_available()


def preprocessing_of(settings: dict[str, Any], name: str) -> Preprocessing:
    """Preprocessing from what open_clip says of a model."""
    size = settings["size"]
    height, width = size if isinstance(size, list | tuple) else (size, size)
    mode, interpolation = settings.get("resize_mode", "shortest"), settings.get("interpolation", "bicubic")
    if height != width or mode not in ("shortest", "squash"):
        raise BackboneError(
            f"open_clip:{name} wants inputs of {height} x {width}, scaled by '{mode}'; only squares, by 'shortest' or "
            "'squash', are made here"
        )
    return Preprocessing(
        size=int(width),
        resize=int(width),
        mean=tuple(settings["mean"]),
        std=tuple(settings["std"]),
        interpolation="bicubic" if interpolation == "random" else interpolation,
        fit="squash" if mode == "squash" else "crop",
    )
