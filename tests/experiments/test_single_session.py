"""The single-session protocol: episodes by hand, by a naive loop, in any batches and on any number of processes."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_features import C0, C1, TURNED, D, make_features, turned_arrays

from subspan.experiments.episodes import Episodes, digest_of_items
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.metrics import interval_half_width
from subspan.experiments.runs import Cell, run_cells
from subspan.experiments.single_session import SingleSession
from subspan.features.feature_set import FeatureSet
from subspan.learners.imprint import Imprint
from subspan.learners.registry import create_method

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))
from naive import NaiveSession, naive_sgd

SMALL = SingleSession(ways=3, shots=2, base_queries=6, novel_queries=6, count=7, dtype="float64")


def corners() -> FeatureSet:
    """Base classes at the first two corners of the simplex, novel ones at the last two; one query each."""
    e = np.eye(4)
    return FeatureSet.from_arrays(
        {
            "base_weight": e[:2],
            "base_test": np.stack([e[0], 0.6 * e[1] + 0.8 * e[2]])[:, None],  # the second looks like novel class 0
            "novel_test": np.stack([e[2], 0.8 * e[1] + 0.6 * e[3]])[:, None],  # the second looks like base class 1
            "novel_support": np.stack([e[2], e[3]])[:, None, None],
        }
    )


@pytest.mark.parametrize("turned", TURNED)
def test_arrays_are_taken_however_they_lie_in_memory(turned):
    features, method = make_features(), create_method("imprint")
    expected, other = SMALL.run(features, method), SMALL.run(turned_arrays(features, turned), method)
    np.testing.assert_array_equal(other.base, expected.base)
    np.testing.assert_array_equal(other.novel, expected.novel)


def test_delta_and_interval_by_hand():
    features = corners()
    episodes = Episodes(
        classes=np.array([[0, 1]] * 3 + [[1, 0]]),
        support=np.array([[[0], [1]]] * 3 + [[[1], [0]]]),
        base_queries=np.array([[0], [0], [1], [1]]),
        novel_queries=np.array([[[0], [1]]] * 3 + [[[1], [0]]]),
        seeds=np.zeros(4, np.int64),
        protocol="by hand",
        items=digest_of_items(features),
    )
    result = SingleSession(ways=2, shots=1, novel_queries=2).run(features, create_method("imprint"), episodes=episodes)
    assert result.base.tolist() == [100, 100, 0, 0]  # base item 1 is taken for novel class 0 ...
    assert result.base_alone.tolist() == [100] * 4  # ... but among base classes for its own
    assert result.novel.tolist() == [50] * 4  # one of the two is taken for base class 1
    assert result.novel_alone.tolist() == [100] * 4
    assert result.joint.tolist() == [75, 75, 25, 25]
    assert result.delta.tolist() == [-25, -25, -75, -75]  # ((100 - 100) + (50 - 100)) / 2, ((0 - 100) + (50 - 100)) / 2
    # deviations of 25 around 50: variance 4 * 625 / 3, over 4 episodes; 1.959964 standard errors
    assert interval_half_width(result.joint, distribution="normal") == pytest.approx(1.959964 * (2500 / 3 / 4) ** 0.5)
    assert result.protocol == "by hand"


def test_episodes_are_drawn_as_the_protocol_says():
    features = make_features(test=5)
    episodes = SMALL.draw(features)
    assert len(episodes) == 7
    support_of, tests = features.novel_support_labels, features.novel_test_labels
    for e in range(7):
        classes = episodes.classes[e]
        assert len(set(classes)) == 3
        np.testing.assert_array_equal(support_of[episodes.support[e]], np.repeat(classes[:, None], 2, 1))
        np.testing.assert_array_equal(tests[episodes.novel_queries[e]], np.repeat(classes[:, None], 2, 1))
        for chosen in (episodes.support[e], episodes.novel_queries[e], episodes.base_queries[e]):
            assert len(np.unique(chosen)) == chosen.size
    assert len({tuple(c) for c in episodes.classes}) > 1
    longer = replace(SMALL, count=9).draw(features)
    np.testing.assert_array_equal(longer.part(0, 7).support, episodes.support)
    one_shot, cut = replace(SMALL, shots=1).draw(features), episodes.first_shots(1)
    for name in ("classes", "support", "base_queries", "novel_queries", "seeds"):
        np.testing.assert_array_equal(getattr(one_shot, name), getattr(cut, name))
    assert not np.array_equal(replace(SMALL, seed=1).draw(features).classes, episodes.classes)


def test_all_classes_are_drawn_equally_often():
    classes = replace(SMALL, count=2000).draw(make_features()).classes
    expected = 2000 * 3 / C1
    counts = np.bincount(classes.ravel(), minlength=C1)
    assert np.abs(counts - expected).max() < 5 * (expected * (1 - 3 / C1)) ** 0.5


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("method", ["subspace:basis=qr", "semantic", "finetune", "linear_map"])
def test_an_episode_is_what_the_naive_loop_gives(method, bias):
    """Full weights, one step at a time, then scores and accuracies from their definitions."""
    features = make_features(bias=bias, test=5, noise=2.0)
    chosen = create_method(method, new_rows="zeros", learning_rate=0.05, max_steps=40, patience=10**6, gamma=0.02)
    embeddings = features.embeddings["names"]
    result = SMALL.run(features, chosen, embeddings=embeddings)
    episodes = SMALL.draw(features)

    def with_one(array):
        array = torch.as_tensor(array, dtype=torch.float64)
        return torch.cat([array, torch.ones(*array.shape[:-1], 1, dtype=torch.float64)], -1) if bias else array

    base = torch.as_tensor(features.base_weight, dtype=torch.float64)
    if bias:
        base = torch.cat([base, torch.as_tensor(features.base_bias)[:, None]], 1)
    names = torch.as_tensor(embeddings)
    for e in range(3):
        targets = None
        if method == "semantic":
            novel = names[C0 + episodes.classes[e]]
            targets = torch.softmax(novel @ names[:C0].T / chosen.tau, 1) @ base
        elif method == "linear_map":
            inputs = torch.cat([names, torch.ones(len(names), 1, dtype=torch.float64)], 1)
            known = inputs[:C0]
            ridge = chosen.ridge * base.numel() / 2 * torch.eye(known.shape[1], dtype=torch.float64)
            fitted = torch.linalg.solve(known.T @ known + ridge, known.T @ base)
            targets = inputs[C0 + episodes.classes[e]] @ fitted
        orthonormal = torch.linalg.qr(base.T)[0]
        session = NaiveSession(
            support=with_one(features.novel_support[episodes.support[e].ravel()]).flatten(0, 1),
            support_labels=C0 + torch.arange(3).repeat_interleave(2 * 2),
            memory=None,
            memory_labels=None,
            base_start=base,
            base_reference=base,
            novel_start=None,
            novel_reference=None,
            new_start=torch.zeros(3, base.shape[1], dtype=torch.float64),
            regularizer="subspace" if method.startswith("subspace") else "none" if targets is None else "target",
            projector=orthonormal @ orthonormal.T,
            target=targets,
            gamma=chosen.gamma,
            beta_base=chosen.beta_base,
            weight_decay=chosen.weight_decay,
        )
        rows, _ = naive_sgd(session, lr=0.05, fixed_steps=40)
        base_scores = with_one(features.base_test[episodes.base_queries[e]]) @ rows.T
        novel_scores = with_one(features.novel_test[episodes.novel_queries[e].ravel()]) @ rows.T
        base_truth = torch.as_tensor(features.base_test_labels[episodes.base_queries[e]])
        novel_truth = torch.arange(3).repeat_interleave(2)
        expected = {
            "base": base_scores.argmax(1) == base_truth,
            "novel": novel_scores.argmax(1) == C0 + novel_truth,
            "base_alone": base_scores[:, :C0].argmax(1) == base_truth,
            "novel_alone": novel_scores[:, C0:].argmax(1) == novel_truth,
        }
        for name, right in expected.items():
            assert getattr(result, name)[e] == pytest.approx(100 * right.double().mean().item()), name
        assert result.steps[e] == 40
        if e == 0 and result.weight_space is not None:
            np.testing.assert_allclose(result.weight_space.novel, rows[C0:], rtol=1e-9)
    assert len(np.unique(result.novel)) > 1, "accuracies that are all the same would prove little"


def test_stored_episodes_give_identical_results(tmp_path):
    features = make_features(noise=2.0)
    method = create_method("subspace", learning_rate=0.05, max_steps=30)
    drawn = replace(SMALL, seed=5).run(features, method)
    path = replace(SMALL, seed=5).draw(features).save(tmp_path / "episodes.safetensors")
    replayed = SMALL.run(features, method, episodes=Episodes.load(path))
    for name in ("base", "novel", "base_alone", "novel_alone", "steps"):
        np.testing.assert_array_equal(getattr(replayed, name), getattr(drawn, name))
    assert replayed.protocol == drawn.protocol != SMALL.digest
    other = SMALL.run(features, method)
    assert not np.array_equal(other.novel, drawn.novel)


def test_episodes_of_other_images_are_refused(tmp_path):
    episodes = SMALL.draw(make_features())
    with pytest.raises(ProtocolError, match="the episodes were drawn from other images"):
        SMALL.run(make_features(test=5), create_method("imprint"), episodes=episodes)
    with pytest.raises(ProtocolError, match="the episodes have 2 shots, 5 are asked for"):
        episodes.first_shots(5)
    with pytest.raises(ProtocolError, match=r"episodes are written as \.safetensors"):
        episodes.save(tmp_path / "episodes.npz")
    (tmp_path / "broken.safetensors").write_bytes(b"no")
    with pytest.raises(ProtocolError, match="is no readable"):
        Episodes.load(tmp_path / "broken.safetensors")
    same_images = make_features(seed=8)  # of another network
    assert len(SMALL.run(same_images, create_method("imprint"), episodes=episodes).base) == 7


@pytest.mark.parametrize("batch", [None, 4])
def test_on_a_cpu_a_method_is_given_as_many_episodes_at_once_as_it_says(monkeypatch, batch):
    given = []
    learn = Imprint.learn
    monkeypatch.setattr(Imprint, "batch_on_cpu", 3)
    monkeypatch.setattr(
        Imprint, "learn", lambda self, state, session: given.append(len(state.rows)) or learn(self, state, session)
    )
    features, method = make_features(), create_method("imprint")
    SMALL.run(features, method, batch=batch)
    run_cells(SMALL, features, [Cell(method, 2)], Placement(workers=1), batch=batch)
    assert given == 2 * ([3, 3, 1] if batch is None else [4, 3])


def test_batches_and_processes_change_nothing():
    features = make_features(noise=2.0)
    embeddings = {"words": features.embeddings["names"]}
    cells = [
        Cell(create_method("subspace", learning_rate=0.05, max_steps=20), 2),
        Cell(create_method("semantic", learning_rate=0.05, max_steps=20), 1, "words"),
        Cell(create_method("prototype"), 2),
    ]
    finished = []
    whole = run_cells(SMALL, features, cells, Placement(workers=1), embeddings=embeddings)
    pieces = run_cells(
        SMALL,
        features,
        cells,
        Placement(workers=2),
        embeddings=embeddings,
        batch=3,
        on_cell=lambda number, _: finished.append(number),
    )
    assert sorted(finished) == [0, 1, 2]
    for cell, one, other in zip(cells, whole, pieces, strict=True):
        vectors = embeddings.get(cell.embeddings or "")
        alone = replace(SMALL, shots=cell.shots).run(features, cell.method, embeddings=vectors)
        for name in ("base", "novel", "base_alone", "novel_alone", "steps"):
            np.testing.assert_array_equal(getattr(one, name), getattr(alone, name))
            np.testing.assert_array_equal(getattr(other, name), getattr(alone, name))
        assert one.shots == cell.shots
    assert whole[0].weight_space is not None
    assert whole[0].weight_space.novel.shape == (3, D)
    first = SMALL.draw(features).classes[0]
    assert whole[0].weight_space.novel_names == tuple(f"class {C0 + c}" for c in first)


def test_notes_come_once():
    features = make_features()
    small = replace(
        features,
        base_weight=features.base_weight[:2],
        base_mean=None,
        base_memory=None,
        base_test=features.base_test[:8],
        base_test_labels=features.base_test_labels[:8],
        embeddings={},
    )
    (result,) = run_cells(SMALL, small, [Cell(create_method("subspace:max_steps=2"), 2)], Placement(workers=1), batch=2)
    assert len(result.notes) == 1
    assert "the 2 base rows span only 2 of 16 feature dimensions" in result.notes[0]


def test_what_cannot_be_is_said_in_one_sentence():
    features = make_features()
    with pytest.raises(ProtocolError, match="novel_queries must be a multiple of the 5 ways"):
        SingleSession(novel_queries=26)
    with pytest.raises(ProtocolError, match="seed must be at least 0; got -1"):
        SingleSession(seed=-1)
    with pytest.raises(ProtocolError, match="count must be at least 1; got 0"):
        SingleSession(count=0)
    with pytest.raises(ProtocolError, match="8 ways asked for, but there are only 7 novel classes"):
        replace(SMALL, ways=8, novel_queries=8).draw(features)
    with pytest.raises(ProtocolError, match="9 shots asked for, but class 'class 11' has only 4 support images"):
        replace(SMALL, shots=9).draw(features)
    with pytest.raises(ProtocolError, match="5 queries a class asked for, but class 'class 11' has only 4 test images"):
        replace(SMALL, novel_queries=15).draw(features)
    with pytest.raises(ProtocolError, match="60 base queries asked for, but there are only 44 base test items"):
        replace(SMALL, base_queries=60).draw(features)
    with pytest.raises(ProtocolError, match="method 'semantic' needs embeddings"):
        SMALL.run(features, create_method("semantic"))
    with pytest.raises(ProtocolError, match="there are no embeddings 'words' among none"):
        run_cells(SMALL, features, [Cell(create_method("semantic"), 2, "words")])
    with pytest.raises(ProtocolError, match="device must be cpu, or cuda where there is a GPU; got 'tpu'"):
        Placement(device="tpu")


def test_without_ray_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs the package ray.*'subspan\[ray\]'"):
        run_cells(SMALL, make_features(), [Cell(create_method("imprint"), 2)], Placement(ray=True))


def test_the_digest_tells_protocols_apart():
    assert SMALL.digest == replace(SMALL).digest
    assert len({SMALL.digest, replace(SMALL, shots=1).digest, replace(SMALL, seed=1).digest}) == 3
