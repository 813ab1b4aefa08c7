"""Self-supervision by turns: beside its class, a second, small head learns by how much each image was turned.

A turned image keeps its class, and the class loss acts on it as on any other (as in SKD); the loss of its turn is added
with a weight. Training alone uses the second head: it travels in checkpoints, and trained weights are without it.

References: Gidaris et al., Boosting few-shot visual learning with self-supervision, ICCV 2019 (class loss on upright
images only); Rajasegaran et al., Self-supervised knowledge distillation for few-shot learning, 2020 (SKD; class loss on
all turns, but its second head reads the class logits: here it reads the features, whatever the first head is).
"""

import torch
from torch import Tensor

from subspan.backbones import LinearHead, Mixing, Network

TURNS = 4  # upright, and by one, two or three quarters of a circle
_TURN_HEAD = "turn_head."


class TurnNetwork(Network):
    """A network with a second head on the same features: images (n, 3, h, w) to logits (n, C + 4), classes first."""

    def __init__(self, network: Network, turn_head: LinearHead) -> None:
        super().__init__(network.backbone, network.head)
        self.turn_head = turn_head

    def forward(self, images: Tensor, mixing: Mixing | None = None) -> Tensor:
        """(n, 3, h, w) to (n, C + 4)."""
        features = self.features(images, mixing)
        return torch.cat([self.head(features), self.turn_head(features)], dim=1)


def without_turn_head(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The state of a plain network, from that of one with or without a second head."""
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(_TURN_HEAD)}
