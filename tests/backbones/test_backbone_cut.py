"""A network cut in two: both parts together are the whole, and only the tail moves."""

import copy

import pytest
import torch
from torch import nn

from subspan.backbones.cut import cut
from subspan.backbones.registry import create_backbone, list_backbones


def images(count: int = 3) -> torch.Tensor:
    return torch.randn(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("where", ["stage", "unit"])
@pytest.mark.parametrize("name", list_backbones())
def test_one_part_after_the_other_is_the_whole_network_bit_for_bit(name: str, where: str) -> None:
    backbone = create_backbone(name, width=0.1, se=True).train()
    backbone(images(8))  # statistics of their own, so that evaluation mode has something to use
    backbone.eval()
    trunk, tail = cut(backbone, where)  # type: ignore[arg-type]
    assert torch.equal(tail(trunk(images())), backbone(images()))


def parameters(part: nn.Module) -> set[int]:
    return {id(p) for p in part.parameters()}


@pytest.mark.parametrize(("where", "last"), [("stage", "layer4"), ("unit", "layer4.1")])
def test_the_tail_is_the_last_stage_or_the_last_unit(where: str, last: str) -> None:
    backbone = create_backbone("resnet18-tian", width=0.1)
    trunk, tail = cut(backbone, where)  # type: ignore[arg-type]
    assert parameters(tail) == parameters(backbone.get_submodule(last))
    assert not parameters(tail) & parameters(trunk)
    assert parameters(tail) | parameters(trunk) == parameters(backbone)


def test_a_copy_of_the_tail_leaves_the_network_alone() -> None:
    backbone = create_backbone("resnet12-tian", width=0.1).eval()
    trunk, tail = cut(backbone, "stage")
    before, moved = backbone(images()), copy.deepcopy(tail)
    with torch.no_grad():
        for p in moved.parameters():
            p += 0.1
    assert torch.equal(backbone(images()), before)
    assert not torch.allclose(moved(trunk(images())), before)


def test_other_networks_and_places_are_refused() -> None:
    with pytest.raises(ValueError, match=r"only the residual networks .* got a Linear"):
        cut(nn.Linear(2, 2), "stage")
    with pytest.raises(ValueError, match="before its last stage or unit, got 'block'"):
        cut(create_backbone("resnet12-tian", width=0.1), "block")  # type: ignore[arg-type]
