"""TOPIC on made-up images: it learns, its anchors keep what was learned, and only the last unit moves."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up_images import BASE, WAYS, World, run

from subspan.backbones import LinearHead
from subspan.methods import create_method
from subspan.protocols.multi_session import MultiSession
from subspan.protocols.results import MethodResult
from subspan.systems.topic import Topic, overlap

PROTOCOL = MultiSession(ways=WAYS, draws=1)
QUICK = Topic(nodes=40, gas_passes=1, epochs=30, rate=0.05)


def result(world: World, system: Topic) -> MethodResult:
    maps = world.maps()
    return PROTOCOL.run(maps.items, system.on(maps, run()), memory=False)


def test_it_learns_new_classes_and_its_anchors_keep_the_old_ones(world: World) -> None:
    held, free = result(world, QUICK), result(world, dataclasses.replace(QUICK, anchor=0.0))
    chance = 100 / (BASE + 2 * WAYS)
    assert held.base[:, 0].mean() > 70
    assert held.novel[:, 1].mean() > 3 * chance
    assert held.base[:, -1].mean() > 55
    assert free.base[:, -1].mean() < held.base[:, -1].mean() - 15


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
    support = torch.tensor(maps.items.novel_support[:5]).flatten(0, 1)[None]
    labels = torch.full((1, support.shape[1]), BASE)
    from subspan.methods import BaseSession, Head, Session

    rows = torch.cat([system.prepared.rows, torch.zeros(1, system.prepared.rows.shape[1])])[None]
    base = BaseSession(torch.zeros(BASE, 1))
    head = Head(rows, rows, BASE, (BASE,), torch.zeros(1, 1, 1))
    update = system.learn(base, head, Session(support, labels))
    assert update.state is not None
    before = system.prepared.state
    assert update.state["centres"].shape[1] == 41
    assert torch.equal(update.state["centres"][0, :40], before["centres"])
    assert update.state["labels"][0, 40] == BASE
    assert update.state["images"][0, 40] in support.flatten()
    assert torch.equal(update.rows[0, :BASE], system.prepared.rows)
    assert update.rows[0, BASE].abs().max() > 0.001
    moved = [
        name for name in before if name.startswith("tail.") and not torch.equal(update.state[name][0], before[name])
    ]
    assert moved
    assert all(name.startswith("tail.units.0.") for name in moved)


def test_stiffness_is_the_scripts_or_the_inverse_variance() -> None:
    variance = torch.tensor([[0.1, 0.6], [0.2, 0.3]])
    assert Topic()._stiffness(variance).tolist() == [[1.0, pytest.approx(0.9)], [1.0, 1.0]]
    stiff = Topic(stiffness="variance")._stiffness(variance)
    torch.testing.assert_close(stiff, 0.3 / variance)


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
    biased = LinearHead(maps.training_features.shape[1], BASE, bias=True, generator=torch.Generator())
    with pytest.raises(ValueError, match="needs a base session with a cosine head, or with a linear one without bias"):
        QUICK.on(dataclasses.replace(maps, head=biased), run())
    with pytest.raises(ValueError, match="281 nodes asked for, but there are only 280"):
        dataclasses.replace(QUICK, nodes=281).on(maps, run())
    with pytest.raises(ValueError, match="became nan; try a smaller rate"):
        result(world, dataclasses.replace(QUICK, rate=1e9))
