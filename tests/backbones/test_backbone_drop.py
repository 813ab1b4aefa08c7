"""Dropout and DropBlock: rates, block shapes, the ramp, and that evaluation leaves values alone."""

import pytest
import torch

from subspan.backbones.heads import create_head
from subspan.backbones.network import Network
from subspan.backbones.parts.drop import Clock, DropBlock, Dropout
from subspan.backbones.registry import create_backbone


def clock_at(steps: int, seed: int = 0) -> Clock:
    clock = Clock()
    clock.reseed(seed)
    clock.steps.fill_(steps)
    return clock


def test_dropout_keeps_the_mean_and_its_rate() -> None:
    out = Dropout(0.1, stream=0)(torch.ones(50, 20, 10, 10), clock_at(1))
    assert (out == 0).float().mean().item() == pytest.approx(0.1, abs=0.005)
    assert out.mean().item() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("block", [1, 5])
@pytest.mark.parametrize(("steps", "share"), [(0, 0.0), (500, 0.05), (1000, 0.1), (9000, 0.1)])
def test_dropblock_grows_to_its_rate(block: int, steps: int, share: float) -> None:
    drop = DropBlock(0.1, stream=1, block_size=block, ramp_steps=1000)
    out = drop(torch.ones(64, 32, 10, 10), clock_at(steps))
    # Blocks overlap, so a little less than the rate is dropped: 1 - (1 - gamma)^k near the middle of the map.
    assert (out == 0).float().mean().item() == pytest.approx(share, abs=0.012)
    assert out.mean().item() == pytest.approx(1.0, abs=1e-3)


def test_dropblock_drops_whole_squares() -> None:
    drop = DropBlock(0.02, stream=1, block_size=3, ramp_steps=1)
    dropped = drop(torch.ones(8, 8, 12, 12), clock_at(1)) == 0
    assert dropped.any()
    # Every dropped value lies in a 3x3 square of dropped values.
    full = torch.nn.functional.avg_pool2d(dropped.float(), 3, stride=1) > 0.999
    covered = torch.nn.functional.max_pool2d(torch.nn.functional.pad(full.float(), (2, 2, 2, 2)), 3, stride=1)
    assert torch.equal(dropped, (covered > 0) & dropped)
    assert torch.equal(dropped, covered > 0)


def test_a_block_as_large_as_the_map_drops_whole_channels() -> None:
    out = DropBlock(0.3, stream=1, block_size=5, ramp_steps=1)(torch.ones(20, 20, 4, 4), clock_at(1))
    per_channel = (out == 0).float().mean((2, 3))
    assert set(per_channel.unique().tolist()) == {0.0, 1.0}
    assert per_channel.mean().item() == pytest.approx(0.3, abs=0.07)


def test_masks_change_with_step_stream_and_seed() -> None:
    ones = torch.ones(2, 4, 8, 8)

    def mask(steps: int, stream: int, seed: int) -> torch.Tensor:
        return Dropout(0.5, stream=stream)(ones, clock_at(steps, seed))

    assert torch.equal(mask(1, 0, 0), mask(1, 0, 0))
    for other in (mask(2, 0, 0), mask(1, 1, 0), mask(1, 0, 1)):
        assert not torch.equal(mask(1, 0, 0), other)


def test_training_steps_differ_and_evaluations_do_not() -> None:
    images = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    backbone = create_backbone("resnet12-tian", width=0.1, dropblock="full")
    network = Network(backbone, create_head("linear", backbone.feature_dim, 3))  # type: ignore[arg-type]
    for training in (True, False):
        network.train(training)
        first = network(images)
        network.tick()
        assert torch.equal(first, network(images)) is not training


def test_a_pass_leaves_the_clock_alone() -> None:
    # A compiled backward pass may draw the masks again; it must find the clock as the forward pass found it.
    backbone = create_backbone("resnet12-tian", width=0.05).train()
    before = {name: value.clone() for name, value in backbone.named_buffers() if "clock" in name}
    backbone(torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))).sum().backward()
    assert len(before) == 2
    assert all(torch.equal(dict(backbone.named_buffers())[name], value) for name, value in before.items())


def test_the_two_variants_differ_in_block_size_only() -> None:
    def blocks(variant: str) -> list[tuple[str, int]]:
        backbone = create_backbone("resnet18-tian", width=0.05, dropblock=variant)
        return [(name, m.block_size) for name, m in backbone.named_modules() if isinstance(m, DropBlock)]

    assert blocks("paper") == [("layer3.1.drop", 1), ("layer4.1.drop", 1)]
    assert blocks("full") == [("layer3.1.drop", 5), ("layer4.1.drop", 5)]
    assert blocks("none") == []
    with pytest.raises(ValueError, match="dropblock must be one of paper, full, none, got 'half'"):
        create_backbone("resnet18-tian", dropblock="half")
