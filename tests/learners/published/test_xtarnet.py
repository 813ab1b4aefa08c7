"""XtarNet on made-up images: it learns, its second stage helps; its equations against a loop with an SVD."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up_images import BASE, World, make_world, run

from subspan.backbones.heads import CosineHead, EuclideanHead
from subspan.experiments.results import EpisodeResult
from subspan.experiments.single_session import SingleSession
from subspan.learners.published import xtarnet
from subspan.learners.published.xtarnet import XtarNet, condition
from subspan.train.maps import SplitMaps

PROTOCOL = SingleSession(ways=2, base_queries=10, novel_queries=10, count=100)
QUICK = XtarNet(ways=2, queries=10)
FAST = {"batch": 1, "rates": (0.1, 0.01), "rate_cuts": (0.5,), "optimiser": "sgd", "nesterov": False}


def result(maps: SplitMaps, system: XtarNet, steps: int, **changes: object) -> EpisodeResult:
    ready = system.on(maps, run(**{**FAST, "steps": steps, **changes}))
    return PROTOCOL.run(maps.items, ready, episodes=PROTOCOL.draw(maps.items).first_shots(system.shots))


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> list[SplitMaps]:
    """Maps of three networks that have only begun to learn, so that there is something to add to their features.

    Several, and means over them: where a training ends depends on the roundings of the machine.
    """
    changes = {"epochs": 1, "cuts": (), "learning_rate": 0.01}
    return [make_world(tmp_path_factory.mktemp("begun"), seed, **changes).maps("stage") for seed in range(3)]


def test_it_learns_and_its_second_stage_helps(begun: list[SplitMaps]) -> None:
    def mean(system: XtarNet, steps: int) -> float:
        return float(np.mean([result(maps, system, steps, batch=4).joint.mean() for maps in begun]))

    both, untrained = mean(QUICK, 200), mean(QUICK, 1)
    assert both > 5 * 100 / (BASE + 2)  # of chance
    assert both > untrained + 1


def with_nearest_means(maps: SplitMaps) -> SplitMaps:
    """The same base session with a Euclidean head: the mean feature of every class."""
    width = maps.training_features.shape[1]
    head = EuclideanHead(width, BASE, generator=torch.Generator().manual_seed(0))
    means = torch.stack([maps.training_features[maps.labels == c].mean(0) for c in range(BASE)])
    head.weight = torch.nn.Parameter(means, requires_grad=False)
    return dataclasses.replace(maps, head=head)


def test_a_euclidean_head_needs_no_scale_and_one_shot_is_harder(begun: list[SplitMaps]) -> None:
    system, each = dataclasses.replace(QUICK, shots=1), [with_nearest_means(maps) for maps in begun]
    # Distances to means are far larger than a head would have learned: smaller steps.
    one, five = ([result(maps, s, 60, rates=(0.003, 0.0003)) for maps in each] for s in (system, QUICK))
    assert (one[0].shots, five[0].shots) == (1, 5)
    assert one[0].protocol == f"{PROTOCOL.digest}, first 1 of 5 shots"
    means = [np.mean([found.joint.mean() for found in several]) for several in (one, five)]
    assert 3 * 100 / (BASE + 2) < means[0] < means[1]
    maps = each[0]
    ready = system.on(maps, run(steps=1, **FAST))
    assert xtarnet.LOG_SCALE not in ready.prepared.parameters
    assert "a Euclidean head, as published" in ready.notes()[0]


def naive_scores(p: dict[str, np.ndarray], support: np.ndarray, query: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """One episode in NumPy: support (K, n, 2 D), one query (2 D,), base rows (B, D); logits (B + K,)."""

    def layer(name: str, x: np.ndarray) -> np.ndarray:
        return p[f"{name}.weight"] @ x + p[f"{name}.bias"]

    def relu(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)

    def gate(name: str, t: np.ndarray) -> np.ndarray:
        for place in range(3):
            t = relu(layer(f"{name}.{place}", t))
        return 1 / (1 + np.exp(-layer(f"{name}.3", t)))

    def residual(name: str, x: np.ndarray) -> np.ndarray:
        for place in range(3):
            x = x + relu(layer(f"{name}.{place}", x))
        return x

    width = rows.shape[1]
    task = np.mean([images.mean(0) for images in support], axis=0)
    gate_f, gate_g = gate("merge_f", task), gate("merge_g", task)

    def adapted(x: np.ndarray) -> np.ndarray:
        return gate_f * x[:width] + gate_g * x[width:]

    centres = [np.mean([adapted(image) for image in images], axis=0) for images in support]
    middle = np.mean(centres, axis=0)
    gamma, beta = residual("gamma", middle), residual("beta", middle)
    base = [(1 + 0.1 * gamma) * row + 0.1 * beta for row in rows]
    novel, spanning = [], []
    for centre, e in zip(centres, p["e"], strict=True):
        x = relu(layer("correlation.0", np.array([centre @ row for row in base])))
        x = x + relu(layer("correlation.1", x))
        x = x + layer("correlation.2", x)
        shares = np.exp(x - x.max()) / np.exp(x - x.max()).sum()
        row = e - sum(share * b for share, b in zip(shares, base, strict=True))
        novel.append(row)
        spanning.append(row / np.linalg.norm(row) - centre / np.linalg.norm(centre))
    _, _, vectors = np.linalg.svd(np.array(spanning))
    outside = vectors[len(spanning) :]  # (D - K, D)
    return np.array([-(np.linalg.norm(outside @ (adapted(query) - row)) ** 2) for row in [*base, *novel]])


def some_parameters(rows: torch.Tensor, ways: int) -> dict[str, torch.Tensor]:
    drawn = xtarnet._start(rows.float(), ways, torch.Generator().manual_seed(1))
    return {name: tensor.double() for name, tensor in drawn.items()}


def test_scores_are_those_of_the_equations() -> None:
    generator = torch.Generator().manual_seed(0)
    ways, shots, width, classes = 3, 2, 7, 6
    support = torch.randn(2, ways, shots, 2 * width, generator=generator, dtype=torch.float64)
    queries = torch.randn(2, 4, 2 * width, generator=generator, dtype=torch.float64)
    rows = torch.randn(classes, width, generator=generator, dtype=torch.float64)
    parameters = some_parameters(rows, ways)
    found = condition(parameters, support.mean(2), rows).scores(queries)
    p = {name: tensor.numpy() for name, tensor in parameters.items()}
    for episode in range(2):
        for place in range(4):
            expected = naive_scores(p, support[episode].numpy(), queries[episode, place].numpy(), rows.numpy())
            np.testing.assert_allclose(found[episode, place].numpy(), expected, rtol=1e-9)


def test_masked_rows_have_no_say() -> None:
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(1, 2, 10, generator=generator, dtype=torch.float64)
    rows = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    other = rows.clone()
    other[2] = 100.0
    parameters, seen = some_parameters(rows, 2), torch.tensor([[True, True, False, True]])
    first, second = (condition(parameters, means, these, seen) for these in (rows, other))
    torch.testing.assert_close(first.rows[:, 4:], second.rows[:, 4:])
    unmasked = condition(parameters, means, other)
    assert not torch.allclose(first.rows[:, 4:], unmasked.rows[:, 4:])


def test_statistics_after_training_are_those_of_all_base_images(world: World) -> None:
    maps = world.maps("stage")
    moved = {name: p * 1.1 for name, p in maps.parameters().items()}
    answering = xtarnet._answering_copy(maps, moved, torch.Generator().manual_seed(0))
    learning = xtarnet._learning_copy(maps.tail)
    shown = maps.at(maps.training)
    with torch.no_grad():
        by_batch = torch.func.functional_call(learning, moved, (shown,))
        torch.testing.assert_close(answering(shown), by_batch, rtol=0.02, atol=0.02)  # variances by n - 1 and by n
    assert not torch.allclose(maps.features(maps.training), by_batch, rtol=0.02, atol=0.02)


def test_a_killed_training_is_resumed_to_the_same_parameters(world: World, tmp_path: Path) -> None:
    maps, settings = world.maps("stage"), {**FAST, "steps": 24}
    whole = QUICK.on(maps, run(**settings)).prepared

    def die(stage: str, done: int, total: int, loss: float) -> None:
        raise KeyboardInterrupt

    first = dataclasses.replace(
        run(**settings), checkpoint=tmp_path / "part", seconds_between_checkpoints=0.0, tell=die
    )
    with pytest.raises(KeyboardInterrupt):
        QUICK.on(maps, first)
    resumed = QUICK.on(maps, dataclasses.replace(first, tell=None, resume=True)).prepared
    assert all(torch.equal(resumed.parameters[name], whole.parameters[name]) for name in whole.parameters)
    assert torch.equal(resumed.features, whole.features)


def test_what_does_not_fit_is_refused(world: World) -> None:
    maps = world.maps("stage")
    width, generator = maps.training_features.shape[1], torch.Generator()
    with pytest.raises(ValueError, match=r"Euclidean head \(--head euclidean\), or with a linear one$"):
        QUICK.on(dataclasses.replace(maps, head=CosineHead(width, BASE, generator=generator)), run(steps=1, **FAST))
    with pytest.raises(ValueError, match="queries must be a multiple of the 3 ways; got 10"):
        XtarNet(ways=3, queries=10)
    with pytest.raises(ValueError, match="8 base classes are to play novel, but there are 8"):
        XtarNet(ways=8, queries=8).on(maps, run(steps=1, **FAST))
    ready = QUICK.on(maps, run(steps=1, **FAST))
    with pytest.raises(ValueError, match="has learned 2 vectors for novel classes, an episode has 4"):
        SingleSession(ways=4, base_queries=8, novel_queries=8, count=2).run(maps.items, ready)
