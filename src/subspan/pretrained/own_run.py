"""A network that ``subspan train`` made: ``subspan:FOLDER`` of a run, or its weights file."""

from pathlib import Path

import torch
from torch import Tensor, nn

from subspan.backbones.heads import CosineHead
from subspan.backbones.network import Network
from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.registry import register_source
from subspan.train.run import load_run


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
    try:
        network, settings = load_run(Path(place))
    except (OSError, ValueError, KeyError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else error
        raise BackboneError(f"backbone 'subspan:{place}' cannot be loaded: {reason}") from error
    recipe, size = settings.recipe, settings.image_size
    preprocessing = Preprocessing(size=size, resize=size, mean=recipe.mean, std=recipe.std)
    return TorchBackbone(f"subspan:{Path(place).resolve()}", HeadInputs(network), preprocessing, digest)
