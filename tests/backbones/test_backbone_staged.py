"""Features of two stages: what they are made of, and that the answers stay the same."""

import pytest
import torch

from subspan.backbones import Network, create_backbone, create_head, feature_dim
from subspan.backbones.cut import cut
from subspan.backbones.joined import join_networks
from subspan.backbones.staged import with_stage_before


def small(name: str = "resnet12-tian", head: str = "cosine") -> Network:
    backbone = create_backbone(name, width=0.05, seed=1)
    return Network(backbone, create_head(head, feature_dim(backbone), 5, seed=1)).eval()


def images() -> torch.Tensor:
    return torch.rand(4, 3, 40, 40, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["resnet12-tian", "resnet18-tian", "resnet18-he"])
def test_features_are_those_before_and_after_the_last_stage(name: str) -> None:
    network = small(name)
    staged = with_stage_before(network, 3.0)
    trunk, tail = cut(network.backbone, "stage")
    with torch.no_grad():
        maps = trunk(images())
        before, last = maps.mean((2, 3)), tail(maps)
        features, logits = staged.features(images()), staged(images())
        torch.testing.assert_close(logits, network(images()))
    width = last.shape[1]
    torch.testing.assert_close(features[:, :width], last / last.norm(dim=1, keepdim=True))
    torch.testing.assert_close(features[:, width:], 3 * before / before.norm(dim=1, keepdim=True))
    assert feature_dim(staged.backbone) == features.shape[1]


def test_what_has_no_stage_before_the_last_is_refused() -> None:
    with pytest.raises(ValueError, match="need a residual network with a cosine head, got a TianResNet with a linear"):
        with_stage_before(small(head="linear"), 1.0)
    with pytest.raises(ValueError, match="got a JoinedBackbone with a cosine one"):
        with_stage_before(join_networks([small(), small()]), 1.0)
