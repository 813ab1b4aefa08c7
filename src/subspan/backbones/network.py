"""A backbone and its head as one module; the width of any backbone, and the digest of any module's weights."""

import torch
from torch import Tensor, nn

from subspan.backbones.heads import Head
from subspan.backbones.parts.drop import Clock
from subspan.files.arrays import arrays_digest


class Network(nn.Module):
    """Images (n, 3, h, w) to logits (n, C); ``features`` stops before the head."""

    def __init__(self, backbone: nn.Module, head: Head) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head

    def features(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to (n, d)."""
        return self.backbone(images)

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to (n, C)."""
        return self.head(self.features(images))

    def tick(self) -> None:
        """Begin a training step: every clock in the network counts one more."""
        for clock in self._clocks():
            clock.tick()

    def reseed(self, seed: int) -> None:
        """Key the noise of every clock in the network by ``seed``."""
        for clock in self._clocks():
            clock.reseed(seed)

    def _clocks(self) -> list[Clock]:
        return [part for part in self.modules() if isinstance(part, Clock)]


def feature_dim(backbone: nn.Module, image_size: int = 84) -> int:
    """d of any module from images to (n, d): its ``feature_dim`` where it has one, else found with one black image."""
    known = getattr(backbone, "feature_dim", None)
    if isinstance(known, int):
        return known
    training = backbone.training
    first = next(backbone.parameters(), torch.zeros(()))
    with torch.no_grad():
        output = backbone.eval()(torch.zeros(1, 3, image_size, image_size, device=first.device, dtype=first.dtype))
    backbone.train(training)
    if output.ndim != 2:
        raise ValueError(f"a backbone maps images (n, 3, h, w) to features (n, d), got shape {tuple(output.shape)}")
    return int(output.shape[1])


def module_digest(module: nn.Module) -> str:
    """The digest of a module's state."""
    return arrays_digest({name: tensor.detach().cpu().numpy() for name, tensor in module.state_dict().items()})
