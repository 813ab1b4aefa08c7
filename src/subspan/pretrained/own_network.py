"""Networks of your own in torch: ``subspan:RUN`` of ``subspan train``, and ``module:package.function``.

A run is its folder or its weights file. The function is called without arguments and gives a torch module from
normalised images (n, 3, size, size) to features (n, d), or that module and its `Preprocessing`; without one, the usual
one of ImageNet is taken.
"""

import importlib
from pathlib import Path

import torch
from torch import Tensor, nn

from subspan.backbones.heads import CosineHead
from subspan.backbones.network import Network
from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.registry import register_source


class HeadInputs(nn.Module):
    """What the head of a network sees: a cosine head sees the direction of features, times its scale."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.backbone = network.backbone
        head = network.head
        self.feature_dim = int(head.weight.shape[1])
        self.scale = float(head.scale) if isinstance(head, CosineHead) else None

    def forward(self, images: Tensor) -> Tensor:
        features = self.backbone(images)
        if self.scale is None:
            return features
        return self.scale * torch.nn.functional.normalize(features, dim=-1)


@register_source("subspan:RUN")
def own_run(place: str, digest: str | None) -> TorchBackbone:
    """The trained network of a run folder or a weights file."""
    from subspan.train.run import load_run  # here: a function needs no training

    network, settings = load_run(Path(place))
    recipe, size = settings.recipe, settings.image_size
    preprocessing = Preprocessing(size=size, resize=size, mean=recipe.mean, std=recipe.std)
    return TorchBackbone(f"subspan:{Path(place).resolve()}", HeadInputs(network), preprocessing, digest)


@register_source("module:PACKAGE.FUNCTION")
def module_function(place: str, digest: str | None) -> TorchBackbone:
    """What the function gives. Its package must be importable: installed, or on PYTHONPATH."""
    package, _, function = place.rpartition(".")
    try:
        made = getattr(importlib.import_module(package), function)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise BackboneError(
            f"backbone 'module:{place}' cannot be loaded ({error}); it must name a function without arguments of a "
            "package that is installed or on PYTHONPATH"
        ) from error
    module, preprocessing = made if isinstance(made, tuple) and len(made) == 2 else (made, Preprocessing())
    if not isinstance(module, nn.Module) or not isinstance(preprocessing, Preprocessing):
        raise BackboneError(f"'{place}' must give a torch module, or a module and a Preprocessing; got {made!r}")
    return TorchBackbone(f"module:{place}", module, preprocessing, digest)
