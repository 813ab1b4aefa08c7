"""Several networks as one: their features side by side, brought down to fewer by one fixed map.

Networks that learned the same classes from different draws of weights, order and augmentation err differently, on new
classes more than on old ones: together they describe an image better than any of them (Dvornik, Schmid and Mairal,
Diversity with cooperation: ensemble methods for few-shot classification, ICCV 2019).
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from subspan.backbones.heads import CosineHead, EuclideanHead, create_head
from subspan.backbones.modules import feature_dim
from subspan.backbones.network import Network


class JoinedBackbone(nn.Module):
    """Images (n, 3, h, w) to features (n, m): those of k members side by side (n, k d), times a map (k d, m).

    With ``unit`` the features of each member have length 1 / sqrt(k), so that the cosine of two joined features is the
    mean of the members' cosines. Without a map the features side by side are the result.
    """

    projection: Tensor | None  # (k d, m), orthonormal columns

    def __init__(self, members: Sequence[nn.Module], projection: Tensor | None, *, unit: bool) -> None:
        super().__init__()
        self.members, self.unit = nn.ModuleList(members), unit
        self.register_buffer("projection", projection)
        side_by_side = sum(feature_dim(member) for member in members)
        self.feature_dim = side_by_side if projection is None else int(projection.shape[1])

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to (n, m)."""
        parts = [member(images).float() for member in self.members]
        features = _equal_parts(parts) if self.unit else torch.cat(parts, dim=1)
        if self.projection is None:
            return features
        with torch.autocast(features.device.type, enabled=False):
            return features @ self.projection


def join_backbones(networks: Sequence[Network], projection: Tensor | None = None) -> JoinedBackbone:
    """The backbones of networks with heads of one kind, linear or cosine; they stay what they are, and are shared."""
    first = networks[0].head
    if any(type(network.head) is not type(first) for network in networks) or isinstance(first, EuclideanHead):
        kinds = ", ".join(sorted({network.head.kind for network in networks}))
        raise ValueError(f"networks are joined by heads that are all linear or all cosine; got {kinds}")
    return JoinedBackbone([network.backbone for network in networks], projection, unit=isinstance(first, CosineHead))


def join_networks(networks: Sequence[Network], projection: Tensor | None = None) -> Network:
    """One network with the mean of the members' cosines or logits; with a map, cosines or logits of what it keeps.

    The members' heads must be of one size, too.
    """
    backbone, first = join_backbones(networks, projection), networks[0].head
    with torch.no_grad():
        weights: list[Tensor] = [network.head.weight for network in networks]
        rows = _equal_parts(weights) if backbone.unit else torch.cat(weights, dim=1) / len(weights)
        rows = rows if projection is None else rows @ projection
        head = create_head(first.kind, rows.shape[1], rows.shape[0], bias=first.bias is not None).to(rows)
        head.weight.copy_(rows)
        for name in ("bias", "scale"):
            own = [value for network in networks if (value := getattr(network.head, name, None)) is not None]
            if own:
                getattr(head, name).copy_(torch.stack(list(own)).mean(0))
    return Network(backbone, head)


def _equal_parts(parts: Sequence[Tensor]) -> Tensor:
    """k arrays (n, d) side by side (n, k d), every vector of each scaled to the length 1 / sqrt(k)."""
    return torch.cat([normalize(part, dim=1) / math.sqrt(len(parts)) for part in parts], dim=1)


def principal_directions(second_moment: Tensor, count: int) -> Tensor:
    """The ``count`` directions (D, count) that hold most of features with second moment (D, D); the largest first.

    A direction and its opposite hold as much: the one whose entries have a positive sum is taken, on every machine.
    """
    _, vectors = torch.linalg.eigh(second_moment.double())
    vectors = vectors.flip(1)[:, :count]
    return (vectors * torch.where(vectors.sum(0) < 0, -1.0, 1.0)).float().contiguous()
