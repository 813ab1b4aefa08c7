"""Joined networks: what they are made of, and what cannot be joined."""

import numpy as np
import pytest
import torch

from subspan.backbones.heads import create_head
from subspan.backbones.joined import JoinedBackbone, join_networks, principal_directions
from subspan.backbones.network import Network, feature_dim
from subspan.backbones.registry import create_backbone


def small(seed: int, head: str = "cosine", classes: int = 5) -> Network:
    backbone = create_backbone("resnet12-tian", width=0.04, seed=seed)
    return Network(backbone, create_head(head, feature_dim(backbone), classes, seed=seed)).eval()


def test_members_are_shared_and_their_features_have_equal_weight() -> None:
    members = [small(seed) for seed in range(3)]
    joined = join_networks(members)
    assert isinstance(joined.backbone, JoinedBackbone)
    assert joined.backbone.members[1] is members[1].backbone
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        parts = joined.features(images).chunk(3, dim=1)
    for part in parts:
        torch.testing.assert_close(part.norm(dim=1), torch.full((4,), 3**-0.5))
    assert feature_dim(joined.backbone) == joined.head.weight.shape[1] == 3 * members[0].head.weight.shape[1]


def test_a_map_shortens_features_and_rows_alike() -> None:
    members = [small(seed) for seed in range(2)]
    width = 2 * members[0].head.weight.shape[1]
    directions, _ = torch.linalg.qr(torch.randn(width, 6, generator=torch.Generator().manual_seed(0)))
    joined = join_networks(members, directions)
    whole = join_networks(members)
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(joined.features(images), whole.features(images) @ directions)
    torch.testing.assert_close(joined.head.weight, whole.head.weight @ directions)
    assert feature_dim(joined.backbone) == 6


def test_directions_have_one_sign_and_descend() -> None:
    features = torch.randn(200, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    features = features * torch.tensor([1.0, 5.0, 3.0, 0.1, 2.0]) - 2
    moment = features.T @ features / len(features)
    directions = principal_directions(moment, 3).double()
    assert (directions.sum(0) >= 0).all()
    held = (features @ directions).square().mean(0)
    expected = np.linalg.eigvalsh(moment.numpy())[::-1][:3]
    np.testing.assert_allclose(held.numpy(), expected, rtol=1e-6)


def test_heads_of_several_kinds_are_refused() -> None:
    with pytest.raises(ValueError, match="all linear or all cosine; got cosine, linear"):
        join_networks([small(0), small(1, "linear")])
    with pytest.raises(ValueError, match="all cosine; got euclidean"):
        join_networks([small(0, "euclidean"), small(1, "euclidean")])
