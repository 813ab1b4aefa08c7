"""A backbone and its head as one module."""

from torch import Tensor, nn

from subspan.backbones.heads import Head
from subspan.backbones.parts.drop import Clock


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
