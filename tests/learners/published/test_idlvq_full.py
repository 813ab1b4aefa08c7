"""IDLVQ-C with its network on made-up images: it learns, what holds the old classes holds them, training resumes."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up_images import BASE, WAYS, World, after_one_session, before_sessions, run
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from subspan.experiments.multi_session import MultiSession
from subspan.experiments.results import MethodResult
from subspan.learners.parts.vectors import unit
from subspan.learners.published.idlvq_full import Idlvq, calibrated
from subspan.learners.training.run import TrainingRun
from subspan.train.maps import SplitMaps

PROTOCOL = MultiSession(ways=WAYS, draws=1)
QUICK = Idlvq(base_intra=0.1, intra=0.1, forgetting=1.0, epochs=30, rate=0.01)
FAST = {"steps": 50, "batch": 32, "rates": (1e-3,)}


def result(world: World, system: Idlvq) -> MethodResult:
    maps = world.maps("stage")
    return PROTOCOL.run(maps.items, system.on(maps, run(**FAST)), memory=False)


def test_it_learns_and_what_holds_old_classes_holds_them(world: World) -> None:
    held = result(world, QUICK)
    loose = result(world, dataclasses.replace(QUICK, forgetting=0.0, sigma=100.0))
    chance = 100 / (BASE + 2 * WAYS)
    assert held.base[:, 0].mean() > 80
    assert held.novel[:, -1].mean() > 5 * chance
    assert held.base[:, -1].mean() > loose.base[:, -1].mean() + 3


class Means(nn.Module):
    """Means of maps as features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, maps: Tensor) -> Tensor:
        return maps.mean((2, 3)) * self.weight


def with_short_test_features(maps: SplitMaps) -> SplitMaps:
    """Features about a direction for each class: long ones of training images, short ones of all others."""
    items, width, generator = maps.items, 32, torch.Generator().manual_seed(0)
    support = np.repeat(items.novel_support_labels, items.novel_support.shape[1])
    others = np.concatenate([items.base_test_labels, BASE + items.novel_test_labels, BASE + support])
    labels = torch.cat([torch.tensor(others), maps.labels])
    directions = unit(torch.randn(int(labels.max()) + 1, width, generator=generator))
    features = unit(directions[labels] + torch.randn(len(labels), width, generator=generator) / width**0.5)
    features[: len(others)] *= 0.3
    return dataclasses.replace(maps, tail=Means(width), maps=features[..., None, None])  # type: ignore[arg-type]


def test_short_features_do_not_take_base_images_for_new_classes(world: World) -> None:
    maps = with_short_test_features(world.maps("stage"))
    still = dataclasses.replace(QUICK, epochs=0).on(maps, run(**FAST))
    assert PROTOCOL.run(maps.items, still, memory=False).base[:, -1].mean() > 80


def test_training_on_the_base_classes_lowers_the_loss_of_held_out_images(world: World) -> None:
    maps = world.maps("stage")
    queries, labels = torch.tensor(maps.items.base_test[:, 0]), torch.tensor(maps.items.base_test_labels)

    def missed(steps: int) -> float:
        system = QUICK.on(maps, run(**{**FAST, "steps": steps}))
        return float(cross_entropy(system.scores(before_sessions(system), queries[:, None])[0], labels))

    assert missed(50) < 0.9 * missed(1)


def test_a_killed_training_is_resumed_to_the_same_references(world: World, tmp_path: Path) -> None:
    maps = world.maps("stage")
    whole = QUICK.on(maps, run(**FAST)).prepared

    def die(stage: str, done: int, total: int, loss: float) -> None:
        if done >= 30:
            raise KeyboardInterrupt

    first = dataclasses.replace(run(**FAST), checkpoint=tmp_path / "part", seconds_between_checkpoints=0.0, tell=die)
    with pytest.raises(KeyboardInterrupt):
        QUICK.on(maps, first)
    second: TrainingRun = dataclasses.replace(first, tell=None, resume=True)
    resumed = QUICK.on(maps, second).prepared
    assert torch.equal(resumed.rows, whole.rows)
    assert all(torch.equal(resumed.state[name], whole.state[name]) for name in whole.state)


def test_an_exemplar_is_the_image_nearest_to_its_reference(world: World) -> None:
    maps = world.maps("stage")
    system = dataclasses.replace(QUICK, epochs=1).on(maps, run(**{**FAST, "steps": 5}))
    known = system.prepared
    tail = {name.removeprefix("tail."): t for name, t in known.state.items() if name.startswith("tail.")}
    features = unit(maps.features(maps.training, tail))
    for c in range(BASE):
        of_class = maps.training[maps.labels == c]
        distances = (features[maps.labels == c] - known.rows[c]).norm(dim=1)
        assert known.state["exemplars"][c] == of_class[distances.argmin()]
    after = after_one_session(system, maps)
    assert torch.equal(after["exemplars"][0, :BASE], known.state["exemplars"])
    assert after["exemplars"][0, BASE] in torch.tensor(maps.items.novel_support[:5])
    assert not torch.equal(after.rows[0, :BASE], known.rows)  # they follow the network


def test_references_follow_a_network_that_moves_as_a_whole() -> None:
    generator = torch.Generator().manual_seed(0)
    references, before = torch.randn(4, 3, generator=generator), torch.randn(6, 3, generator=generator)
    shift = torch.tensor([1.0, -2.0, 0.5])
    torch.testing.assert_close(calibrated(references, before, before + shift, sigma=0.3), references + shift)


def test_near_exemplars_count_most() -> None:
    before = torch.tensor([[1.0], [3.0]])
    moved = calibrated(torch.tensor([[0.0]]), before, before + torch.tensor([[1.0], [0.0]]), sigma=2.0)
    share = torch.sigmoid(torch.tensor((9 - 1) / (2 * 4.0)))  # of exp(-1/8) beside exp(-9/8)
    torch.testing.assert_close(moved, share.view(1, 1))


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="sigma must be positive"):
        Idlvq(sigma=0.0)
    with pytest.raises(ValueError, match="forgetting must not be negative"):
        Idlvq(forgetting=-1.0)
