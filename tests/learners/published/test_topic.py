"""TOPIC on made-up images: it learns, its anchors keep what was learned, and only the last unit moves."""

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up_images import BASE, WAYS, World, after_one_session, run
from torch.nn.functional import cross_entropy

from subspan.backbones.heads import EuclideanHead
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.results import MethodResult
from subspan.learners.parts.vectors import unit
from subspan.learners.published.topic import Topic, overlap, session_logits
from subspan.learners.registry import create_method
from subspan.learners.training.network_system import of_problem, tail_in
from subspan.train.maps import SplitMaps

PROTOCOL = MultiSession(ways=WAYS, draws=1)
QUICK = Topic(nodes=40, gas_passes=1, epochs=40)
CHANCE = 100 / (BASE + 2 * WAYS)


def result(world: World, system: Topic) -> MethodResult:
    maps = world.maps()
    return PROTOCOL.run(maps.items, system.on(maps, run()), memory=False)


def as_small_as_real_ones(maps: SplitMaps) -> SplitMaps:
    """The same logits by weights and features of the sizes that long training with weight decay leaves.

    Before normalisation the size of weights does not show; after it the head makes up for small features.
    """
    weights, features = 0.2, 0.03
    tail, head = copy.deepcopy(maps.tail), copy.deepcopy(maps.head)
    (block,) = tail.units.children()
    with torch.no_grad():
        for number, factor in ((1, weights * features), (2, weights), (3, weights)):
            block.get_submodule(f"conv{number}").get_parameter("weight").mul_(weights)
            norm = block.get_submodule(f"bn{number}")
            norm.get_buffer("running_mean").mul_(factor)
            norm.get_buffer("running_var").mul_(factor**2)
        for name in ("weight", "bias"):
            block.get_submodule("bn3").get_parameter(name).mul_(features)
        head.get_parameter("weight").div_(features)
    return dataclasses.replace(maps, tail=tail, head=head, maps=features * maps.maps)


def test_it_learns_new_classes(world: World) -> None:
    found = result(world, QUICK)
    assert found.base[:, 0].mean() > 70
    assert found.novel[:, 1].mean() > 3 * CHANCE


def test_its_anchors_keep_old_classes_where_weights_and_features_are_as_small_as_real_ones(world: World) -> None:
    maps = as_small_as_real_ones(world.maps())
    held, free = (
        PROTOCOL.run(maps.items, system.on(maps, run()), memory=False)
        for system in (QUICK, dataclasses.replace(QUICK, anchor=0.0))
    )
    np.testing.assert_allclose(held.base[:, 0], result(world, QUICK).base[:, 0])
    assert held.novel[:, 1].mean() > 3 * CHANCE
    assert held.base[:, -1].mean() > free.base[:, -1].mean() + 20


def test_one_step_leaves_features_of_base_images_where_they_were(world: World) -> None:
    maps = as_small_as_real_ones(world.maps())
    system = dataclasses.replace(QUICK, epochs=1).on(maps, run())
    tail = tail_in(of_problem(after_one_session(system, maps).arrays, 0))
    before, after = unit(maps.training_features), unit(maps.features(maps.training, tail))
    assert (before - after).norm(dim=1).mean() < 0.05


def test_no_gradient_reaches_features_through_old_rows() -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(3, 4, generator=generator, requires_grad=True)
    old, new = 10 * torch.randn(5, 4, generator=generator), torch.randn(2, 4, generator=generator)
    labels = torch.tensor([5, 6, 5])
    logits = session_logits(features, old, new)
    torch.testing.assert_close(logits, features @ torch.cat([old, new]).mT)
    cross_entropy(logits, labels, reduction="sum").backward()
    missed = logits.softmax(1)[:, 5:] - torch.eye(2)[labels - 5]
    torch.testing.assert_close(features.grad, (missed @ new).detach())


def test_session_0_is_the_trained_network(world: World) -> None:
    maps, (network, _) = world.maps(), world.load()
    queries = torch.tensor(maps.items.base_test[:, 0])
    with torch.no_grad():
        predicted = network.head(maps.features(queries)).argmax(1).numpy()
    expected = 100 * (predicted == maps.items.base_test_labels).mean()
    np.testing.assert_allclose(result(world, dataclasses.replace(QUICK, epochs=1)).base[:, 0], expected)


def test_the_same_seed_gives_the_same_result(world: World) -> None:
    quick = dataclasses.replace(QUICK, epochs=3)
    first, second = result(world, quick), result(world, quick)
    np.testing.assert_array_equal(first.base, second.base)
    np.testing.assert_array_equal(first.novel, second.novel)


def test_a_session_adds_a_node_for_every_class_and_keeps_old_rows_and_nodes(world: World) -> None:
    maps = world.maps()
    system = dataclasses.replace(QUICK, epochs=2).on(maps, run())
    support = maps.items.novel_support[:5]
    before, after = system.prepared.state, after_one_session(system, maps)
    assert after["centres"].shape[1] == 41
    assert torch.equal(after["centres"][0, :40], before["centres"])
    assert after["labels"][0, 40] == BASE
    assert after["images"][0, 40] in torch.tensor(support).flatten()
    assert torch.equal(after.rows[0, :BASE], system.prepared.rows)
    assert after.rows[0, BASE].abs().max() > 0.001
    moved = [name for name in before if name.startswith("tail.") and not torch.equal(after[name][0], before[name])]
    assert moved
    assert all(name.startswith("tail.units.0.") for name in moved)


def test_only_close_neighbours_are_pushed_apart() -> None:
    new = torch.tensor([[0.0, 0.0], [0.0, 0.1]], requires_grad=True)
    old = torch.tensor([[0.3, 0.4], [0.0, 0.2]])
    shun = torch.tensor([[True, True, False, True], [False, False, False, False]])
    value = overlap(new, old, shun, 0.45)  # 0.5 is far enough; 0.45 - 0.2 and 0.45 - 0.1
    assert value.item() == pytest.approx(0.25 + 0.35)
    value.backward()
    assert torch.isfinite(new.grad).all()  # type: ignore[union-attr]


def test_bad_options_and_heads_are_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nodes must be at least 1"):
        Topic(nodes=0)
    with pytest.raises(ValueError, match="anchor must not be negative"):
        create_method("topic:anchor=-1")
    maps = world.maps()
    distances = EuclideanHead(maps.training_features.shape[1], BASE, generator=torch.Generator())
    with pytest.raises(ValueError, match="it needs a base session with a cosine or a linear head"):
        QUICK.on(dataclasses.replace(maps, head=distances), run())
    with pytest.raises(ValueError, match="281 nodes asked for, but there are only 280"):
        dataclasses.replace(QUICK, nodes=281).on(maps, run())
    with pytest.raises(ValueError, match=r"became \[nan.* try smaller rates"):
        result(world, dataclasses.replace(QUICK, rate=1e9))
