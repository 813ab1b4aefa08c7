"""Features after two stages of a trained network, side by side.

The last stage of a network keeps what tells its training classes apart. The stage before it knows more of what a new
class may need: on one split its features beside the last ones took nothing from the old classes and added to the new
ones (benchmarks/base_sessions.md). That holds for methods whose base rows are class means. The learned rows of the head
have no part in the added features: a method that compares them with means of new classes favours the new ones.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from subspan.backbones.he import HeResNet
from subspan.backbones.heads import CosineHead
from subspan.backbones.network import Network
from subspan.backbones.tian import TianResNet


class StagedBackbone(nn.Module):
    """Images (n, 3, h, w) to (n, d + d'): features of the last stage, of unit length, and ``weight`` times those of the
    stage before it, of unit length too.
    """

    def __init__(self, backbone: TianResNet | HeResNet, weight: float) -> None:
        super().__init__()
        self.backbone, self.weight = backbone, weight
        self.feature_dim = sum(backbone.stage_dims[-2:])

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to (n, d + d')."""
        maps = self.backbone.maps(images, last=2)
        before, last = (normalize(one.mean((2, 3)).float(), dim=1) for one in maps)
        return torch.cat([last, self.weight * before], dim=1)


def with_stage_before(network: Network, weight: float) -> Network:
    """The network with more features and the same logits: its head asks nothing of those of the stage before the last.

    The head must be a cosine one. Backbone and head's values are shared or copied; the network stays what it is.
    """
    if not isinstance(network.backbone, TianResNet | HeResNet) or not isinstance(network.head, CosineHead):
        raise ValueError(
            "features of two stages need a residual network with a cosine head, "
            f"got a {type(network.backbone).__name__} with a {network.head.kind} one"
        )
    backbone, rows = StagedBackbone(network.backbone, weight), network.head.weight
    head = CosineHead(backbone.feature_dim, len(rows), generator=torch.Generator()).to(rows)
    with torch.no_grad():
        head.weight.zero_()
        head.weight[:, : rows.shape[1]] = rows
        # Features are longer by this factor than the part that the rows meet, and cosines so much smaller.
        head.scale.copy_(network.head.scale * math.sqrt(1 + weight**2))
    return Network(backbone, head).train(network.training)
