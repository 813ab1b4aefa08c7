"""Systems whose sessions train a network: each against a plain loop, one problem at a time."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from made_up_world import C0, C1, D, make_world
from quick_parts import with_part
from sklearn.cluster import KMeans
from torch import nn

from subspan.engine import sessions
from subspan.engine.contract import Memory, Session, State
from subspan.engine.sessions import session_of
from subspan.experiments.inputs import FeatureTensors
from subspan.experiments.multi_session import MultiSession
from subspan.learners.parts.heads import simplex
from subspan.learners.published.etf import initial_neck, neck
from subspan.learners.published.semantic_distill import clusters, distillation
from subspan.learners.registry import create_method, list_systems, method_class
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.session_training import (
    SessionTrainedSystem,
    Span,
    decayed,
    descend,
    drawn_batches,
    linear,
    without_repeats,
)

pytestmark = pytest.mark.filterwarnings("ignore::subspan.learners.training.trained_system.DrawnFeaturesWarning")
WORLD = make_world()
WORDS = WORLD.embeddings["words"]
TENSORS = FeatureTensors.of(WORLD, WORDS, use_bias=False, device="cpu", dtype=torch.float64)
BASE = TENSORS.base
LEARNING = (C0, C0 + 1, C0 + 2)
PROBLEMS = 2


def session(system, memory=False, after: State | None = None) -> tuple[State, Session]:
    """A session of two problems: two images of each of three classes, other ones in each problem."""
    state = sessions.start(system, BASE, PROBLEMS) if after is None else after
    known = state.rows.shape[1]
    classes = range(known, known + 3)
    images = TENSORS.support.view(C1, 6, D)[known - C0 :][:3]
    support = torch.stack([images[:, 2 * p : 2 * p + 2].flatten(0, 1) for p in range(PROBLEMS)])
    labels = torch.tensor(classes).repeat_interleave(2).expand(PROBLEMS, -1)
    stored = None
    if memory:
        assert TENSORS.base_memory is not None
        stored = Memory(TENSORS.base_memory.expand(PROBLEMS, -1, -1), torch.arange(C0).expand(PROBLEMS, -1))
    assert TENSORS.embeddings is not None
    words = TENSORS.embeddings[list(classes)]
    return state, session_of(support, labels, classes, base_memory=stored, embeddings=words, seeds=(5, 6))


def made(spec: str) -> Any:
    return with_part(spec, WORLD)


# What they share


def test_problems_descend_by_themselves():
    """A quadratic each: two problems together end where torch's optimiser leaves each of them alone."""
    targets = torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=torch.float64)
    rules: dict[Any, Any] = {"sgd": partial(torch.optim.SGD, momentum=0.9), "adam": torch.optim.Adam}
    for rule, optimiser in rules.items():
        found = descend(
            {"x": torch.zeros(2, 2, dtype=torch.float64)},
            lambda p, step: (p["x"] - targets).square().sum(-1),
            [0.1, 0.05, 0.02],
            rule=rule,
            decay=0.01,
        )["x"]
        for problem in range(2):
            x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
            alone = optimiser([x], lr=0.1, weight_decay=0.01)
            for rate in (0.1, 0.05, 0.02):
                alone.param_groups[0]["lr"] = rate
                alone.zero_grad()
                (x - targets[problem]).square().sum().backward()
                alone.step()
            torch.testing.assert_close(found[problem], x.detach())


def test_batches_are_drawn_by_weight_and_by_the_seed_of_a_problem():
    weights = torch.tensor([1.0, 0.0, 3.0])
    drawn = drawn_batches(weights, 500, 40, [3, 4])
    shares = torch.bincount(drawn.flatten(), minlength=3) / drawn.numel()
    np.testing.assert_allclose(shares, [0.25, 0, 0.75], atol=0.01)
    assert torch.equal(drawn[:, 1], drawn_batches(weights, 500, 40, [4])[:, 0])
    assert not torch.equal(drawn[:, 0], drawn[:, 1])


def test_a_batch_without_repeats_has_the_same_mean():
    """Of whatever is asked of its examples, for every step and problem, also where one draws more distinct ones."""
    batches = torch.tensor([[[0, 0, 0, 0], [3, 1, 1, 2]], [[4, 4, 0, 1], [2, 2, 3, 3]]])
    values = torch.randn(2, 5, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for batch, (positions, shares) in zip(batches, without_repeats(batches, values), strict=True):
        assert positions.shape == (2, 3), "as many as the problem with the most distinct ones has"
        for problem in range(2):
            assert len(set(positions[problem].tolist())) == 3
            own = values[problem, :, 0]
            torch.testing.assert_close((shares[problem] * own[positions[problem]]).sum(), own[batch[problem]].mean())


def test_training_in_the_span_of_the_features_is_training():
    """Four examples of width ten, two of them alike: torch's SGD on whole weights ends at the same ones."""
    generator = torch.Generator().manual_seed(0)
    features, start, targets = (
        torch.randn(2, *shape, generator=generator, dtype=torch.float64) for shape in ((4, 10), (10, 3), (4, 3))
    )
    features[:, 3] = features[:, 0]
    rates, decay = [0.05, 0.04, 0.03, 0.02] * 5, 0.3
    span = Span.of(features)
    assert span.basis.shape == (2, 10, 4)
    coordinates = span.coordinates(features)

    def loss(p, step):
        return (linear(coordinates, p["weight"]).tanh() - targets).square().sum((-1, -2))

    inside = descend({"weight": span.inside(start)}, loss, rates, rule="sgd", decay=decay)["weight"]
    found = span.with_inside(start, inside, decayed(rates, decay=decay))
    for problem in range(2):
        weight = start[problem].clone().requires_grad_()
        optimiser = torch.optim.SGD([weight], lr=1.0, momentum=0.9, weight_decay=decay)
        for rate in rates:
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            ((features[problem] @ weight).tanh() - targets[problem]).square().sum().backward()
            optimiser.step()
        torch.testing.assert_close(found[problem], weight.detach(), rtol=1e-10, atol=1e-10)
    apart = start - span.basis @ span.inside(start)
    assert apart.norm() > 0.5 * start.norm(), "most of the weights lie outside of the span"


STATEFUL = [name for name in list_systems() if issubclass(method_class(name), SessionTrainedSystem)]


@pytest.mark.parametrize("system", STATEFUL)
def test_a_part_serves_all_options_of_sessions_and_no_other_options(system):
    """The part of one rate runs at another; what shapes the part must be what it was trained with."""
    method = made(system)
    faster = dataclasses.replace(method, rate=2 * method.rate)
    assert faster.part(BASE).path == method.part(BASE).path
    name = method.of_the_part[-1]
    with pytest.raises(ValueError, match=f"was trained with {name}="):
        dataclasses.replace(method, **{name: getattr(method, name) + 1}).part(BASE)


@pytest.mark.parametrize("system", STATEFUL)
def test_a_later_session_starts_from_the_state_before(system):
    """At a rate of zero a session leaves the state as it was; at another it does not."""
    method = made(system)
    first = method.learn(*session(method))
    still = dataclasses.replace(method, rate=0.0).learn(*session(method, after=first))
    moved = method.learn(*session(method, after=first))
    trained = set(method.part(BASE).tensors) & set(first.arrays)
    assert trained
    for name in trained:
        torch.testing.assert_close(still[name], first[name])
        assert not torch.equal(moved[name], first[name])


# The ETF neck


@pytest.mark.parametrize(("count", "width"), [(2, 2), (5, 5), (7, 30)])
def test_the_corners_of_a_simplex(count, width):
    corners = simplex(count, width, seed=1)
    cosines = np.full((count, count), -1 / (count - 1))
    np.fill_diagonal(cosines, 1)
    np.testing.assert_allclose(corners @ corners.mT, cosines, atol=1e-12)
    np.testing.assert_allclose(corners.sum(0), 0, atol=1e-12)
    assert not torch.allclose(corners, simplex(count, width, seed=2))


def test_a_simplex_needs_room():
    with pytest.raises(ValueError, match="a simplex of 6 corners"):
        simplex(6, 5, seed=0)
    with pytest.raises(ValueError, match=r"classes must lie between 2 and width \(50\); got 100"):
        create_method("etf:width=50")


def test_more_classes_than_corners_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match="was made for 26 classes, there are 27"):
        made("etf").corners_of(27, BASE.rows)


class Neck(nn.Module):
    """The same neck of torch's layers, from the parameters of one problem."""

    def __init__(self, p) -> None:
        super().__init__()
        inputs, hidden = p["first.weight"].shape
        outputs = p["last.weight"].shape[1]
        self.main = nn.Sequential(
            nn.Linear(inputs, hidden),
            nn.LayerNorm(hidden),
            nn.LeakyReLU(0.1),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
            nn.LeakyReLU(0.1),
            nn.Linear(hidden, outputs, bias=False),
        )
        self.shortcut = nn.Linear(inputs, outputs, bias=False)
        self.double()
        names = ["first.weight", "first.bias", "first.gain", "first.shift"]
        names += [name.replace("first", "second") for name in names] + ["last.weight", "shortcut.weight"]
        with torch.no_grad():
            for own, name in zip(self.parameters(), names, strict=True):
                own.copy_(p[name].mT if name.endswith(".weight") else p[name])

    def forward(self, x):
        return self.main(x) + self.shortcut(x)


def test_the_neck_is_that_of_torchs_layers():
    generator = torch.Generator().manual_seed(0)
    parameters = {name: t.double() for name, t in initial_neck(D, 40, 30, generator).items()}
    parameters = {name: t + 0.1 * torch.randn(t.shape, generator=generator) for name, t in parameters.items()}
    torch.testing.assert_close(neck(parameters, TENSORS.base_queries), Neck(parameters)(TENSORS.base_queries))


def test_a_session_of_the_neck_by_a_loop():
    """Each problem alone, with torch's layers and optimiser."""
    method = made("etf")
    method = dataclasses.replace(method, steps=4, more_steps=2, batch=8)
    state, given = session(method)
    after = method.learn(state, given)
    part = method.part(BASE).to(BASE.rows)
    corners = simplex(method.classes, method.width, 0)
    assert torch.equal(after.rows[0], corners[: C0 + 3])
    assert sessions.steps_of(after, PROBLEMS).tolist() == [4, 4]
    # the base means once, every new class five times: 6 examples of 3 classes, 2.5 times each
    weights = torch.tensor([1.0] * C0 + [2.5] * 6, dtype=torch.float64)
    assert BASE.means is not None
    for problem, seed in enumerate(given.seeds):
        alone = Neck(part)
        optimiser = torch.optim.SGD(alone.parameters(), lr=1.0, momentum=0.9, weight_decay=5e-4)
        features = torch.cat([BASE.means, given.support[problem]])
        labels = torch.cat([torch.arange(C0), given.labels[problem]])
        for step, rate in enumerate([0.025 / 6, 0.05 / 6, 0.075 / 6, 0.1 / 6]):  # all of it is warm-up
            chosen = drawn_batches(weights, 8, 4, [seed])[step, 0]
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            outputs = alone(features[chosen])
            cosines = torch.cosine_similarity(outputs, corners[labels[chosen]], dim=-1)
            (5 * ((cosines - 1) ** 2).mean()).backward()
            optimiser.step()
        expected = torch.cosine_similarity(alone(TENSORS.novel_queries)[:, None], corners[None, : C0 + 3], dim=-1)
        found = method.scores(after, TENSORS.novel_queries)[problem]
        torch.testing.assert_close(found, expected.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(after["means"], given.means)


def test_earlier_novel_classes_count_more_from_session_to_session(monkeypatch):
    seen = []

    def watched(weights, size, steps, seeds):
        seen.append((weights, steps))
        return drawn_batches(weights, size, steps, seeds)

    monkeypatch.setattr("subspan.learners.published.etf.drawn_batches", watched)
    MultiSession(ways=2, shots=2, draws=1).run(WORLD, made("etf"), memory=False)
    assert [steps for _, steps in seen] == [100, 110, 120]
    new = [2.5] * 4
    assert [weights[C0:].tolist() for weights, _ in seen] == [new, [2.0] * 2 + new, [3.0] * 4 + new]
    assert all(weights[:C0].eq(1).all() for weights, _ in seen)


# IDLVQ, frozen


@pytest.mark.parametrize("old", ["held", "trained"])
def test_a_session_of_references_by_a_loop(old):
    method = made(f"idlvq:old={old},steps=5,rate=0.01,intra=0.3")
    state, given = session(method, memory=True)
    after = method.learn(state, given)
    part = method.part(BASE).to(BASE.rows)
    assert given.base_memory is not None
    for problem in range(PROBLEMS):
        features = torch.cat([given.support[problem], given.base_memory.features[problem]])
        labels = torch.cat([given.labels[problem], torch.arange(C0)])
        scaled = features / part["spread"].sqrt()
        fixed = part["references"] / part["spread"].sqrt()
        fresh = torch.stack([scaled[labels == c].mean(0) for c in LEARNING])
        start = fresh if old == "held" else torch.cat([fixed, fresh])
        moving = start.clone().requires_grad_()
        log_gamma = part["log_gamma"].clone().requires_grad_()
        optimiser = torch.optim.Adam([moving, log_gamma], lr=0.01)
        for _ in range(5):
            references = torch.cat([fixed, moving]) if old == "held" else moving
            distances = ((scaled[:, None] - references) ** 2).sum(-1)
            own = distances[torch.arange(len(labels)), labels]
            missed = (torch.logsumexp(-log_gamma.exp() * distances, 1) + log_gamma.exp() * own).mean()
            optimiser.zero_grad()
            (missed + 0.3 * own.mean()).backward()
            optimiser.step()
        references = torch.cat([fixed, moving]) if old == "held" else moving
        expected = references.detach() * part["spread"].sqrt()
        torch.testing.assert_close(after.rows[problem], expected, rtol=1e-7, atol=1e-7)
    if old == "held":
        torch.testing.assert_close(after.rows[:, :C0], state.rows, rtol=0, atol=0)


def test_references_start_at_the_means_of_their_classes():
    """Held to their means by a large weight, base references are the nearest class mean's rows, up to draws."""
    method = made("idlvq:base_intra=1000")
    assert BASE.means is not None
    spread = method.part(BASE).tensors["spread"].item()
    deviations = (method.start(BASE).rows - BASE.means).square().sum(-1)
    assert float(deviations.max()) < 0.1 * spread


def test_references_of_classes_without_spread_are_refused():
    one_each = TrainingFeatures.real(make_world(), list(np.eye(C0, D)[:, None]))
    with pytest.raises(ValueError, match=f"within classes, which is 0 over {C0} images of {C0} classes; learn from"):
        create_method("idlvq").train_part(one_each, TrainingRun(Training(steps=10)))


# Semantic-aware distillation


def test_the_mapping_of_one_feature_by_a_loop():
    method = made("semantic-distill")
    part = {name: t.numpy() for name, t in method.part(BASE).to(BASE.rows).items()}
    found = sessions.scores(method, method.start(BASE), TENSORS.novel_queries[:4])
    for query, scores in zip(TENSORS.novel_queries[:4].numpy(), found.numpy(), strict=True):
        attention = np.exp(query @ part["attention.weight"] + part["attention.bias"])
        attention /= attention.sum()
        mixed = 0
        for share, weight, bias in zip(attention, part["embedding.weight"], part["embedding.bias"], strict=True):
            mixed = mixed + share * (query @ weight + bias)
        hidden = np.concatenate([query, mixed]) @ part["hidden.weight"] + part["hidden.bias"]
        point = np.where(hidden > 0, hidden, 0.1 * hidden) @ part["words.weight"] + part["words.bias"]
        for c in range(C0):
            word = WORDS[c] - WORDS[:C0].mean(0)
            cosine = point @ word / np.linalg.norm(point) / np.linalg.norm(word)
            assert scores[c] == pytest.approx(16 * cosine, rel=1e-7)


def test_what_a_session_minimises(monkeypatch):
    """Its loss before the first step: cross-entropy over all classes of all examples; nothing is forgotten yet."""
    method = made("semantic-distill:keep=7,temperature=3")
    state, given = session(method, memory=True)
    losses = []

    def watched(parameters, loss, rates, **options):
        losses.append(loss(parameters, 0))
        moved = {name: t + 0.05 for name, t in parameters.items()}
        losses.append(loss(moved, 0))
        return moved

    monkeypatch.setattr("subspan.learners.published.semantic_distill.descend", watched)
    after = method.learn(state, given)
    assert given.base_memory is not None
    for problem in range(PROBLEMS):
        features = torch.cat([given.support[problem], given.base_memory.features[problem]])
        labels = torch.cat([given.labels[problem], torch.arange(C0)])
        first, last = (method.scores(known, features)[problem] for known in (state.after(rows=after.rows), after))
        assert losses[0][problem].item() == pytest.approx(nn.functional.cross_entropy(first, labels).item(), rel=1e-9)
        old, new = (scores[:, :C0].div(3).softmax(-1) for scores in (first, last))
        kept = 9 * (old * (old.log() - new.log())).sum(-1).mean()
        expected = nn.functional.cross_entropy(last, labels) + 7 * kept
        assert losses[1][problem].item() == pytest.approx(expected.item(), rel=1e-9)


def test_only_the_mapping_is_trained():
    method = made("semantic-distill")
    after = method.learn(*session(method))
    assert set(after.arrays) == {"rows", "hidden.weight", "hidden.bias", "words.weight", "words.bias"}


def test_distillation_counts_neither_shifts_nor_no_change():
    scores = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(distillation(scores + 3, scores, 2.0), torch.zeros(2, dtype=torch.float64))
    assert distillation(scores.flip(-1), scores, 2.0).min() > 0


def test_clusters_are_as_tight_as_scikit_learns():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(10, 3)) + 20 * np.eye(3)[c] for c in range(3)])
    found = clusters(torch.tensor(points), 3, torch.Generator().manual_seed(1)).numpy()
    expected = KMeans(3, random_state=0).fit_predict(points)
    assert len(set(zip(found.tolist(), expected.tolist(), strict=True))) == 3
    alike = clusters(torch.ones(4, 2), 3, torch.Generator())
    assert len(set(alike.tolist())) == 1, "vectors that are alike share a cluster, others stay empty"


def test_other_word_vectors_are_refused_in_a_sentence():
    method = made("semantic-distill")
    other = np.random.default_rng(1).normal(size=WORDS.shape)
    for vectors in (other, WORDS[:, :5]):
        with pytest.raises(ValueError, match="was trained with other word vectors of the base classes"):
            MultiSession(ways=3, shots=2, draws=1).run(WORLD, method, memory=False, embeddings=vectors)
