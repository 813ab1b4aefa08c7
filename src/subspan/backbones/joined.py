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
from subspan.backbones.network import Network, feature_dim


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


def join_networks(networks: Sequence[Network], projection: Tensor | None = None) -> Network:
    """One network with the mean of the members' cosines or logits; with a map, cosines or logits of what it keeps.

    The members' heads must be of one size, and all linear or all cosine. The members stay what they are.
    """
    heads = [network.head for network in networks]
    kinds = sorted({head.kind for head in heads})
    if len(kinds) > 1 or isinstance(heads[0], EuclideanHead):
        raise ValueError(f"networks are joined by heads that are all linear or all cosine; got {', '.join(kinds)}")
    weights: list[Tensor] = [head.weight for head in heads]
    scales: list[Tensor] = [head.scale for head in heads if isinstance(head, CosineHead)]
    with torch.no_grad():
        rows = _equal_parts(weights) if scales else torch.cat(weights, dim=1) / len(weights)
        rows = rows if projection is None else rows @ projection
        head = create_head(kinds[0], rows.shape[1], rows.shape[0]).to(rows)
        head.weight.copy_(rows)
        if isinstance(head, CosineHead):
            head.scale.copy_(torch.stack(scales).mean(0))
    return Network(JoinedBackbone([network.backbone for network in networks], projection, unit=bool(scales)), head)


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
