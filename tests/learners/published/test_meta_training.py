"""Fake episodes out of the base classes, and the attention that systems share, against plain loops."""

import numpy as np
import pytest
import torch

from subspan.engine.contract import Base
from subspan.learners.parts.heads import attend
from subspan.learners.registry import create_method
from subspan.learners.training.episodes import EpisodeShape, check_shape, draw_fake_episodes, dropped
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import TrainingRun
from subspan.learners.training.trained_system import TrainedSystem

CLASSES, MOST = 7, 6


def numbered() -> TrainingFeatures:
    """Examples that say what they are: (class, number); class c has 4 to 6 of them."""
    features = torch.zeros(CLASSES, MOST, 2)
    counts = torch.tensor([4 + c % 3 for c in range(CLASSES)])
    for c in range(CLASSES):
        for i in range(int(counts[c])):
            features[c, i] = torch.tensor([c, i + 1])  # never zero: zeros fill up
    return TrainingFeatures(features, counts, Base(torch.eye(CLASSES, 2)), "real")


def test_fake_episodes_are_what_they_say():
    shape = EpisodeShape(ways=3, shots=2, novel_queries=2, base_queries=8)
    episodes = draw_fake_episodes(numbered(), shape, 50, torch.Generator().manual_seed(0))
    playing = set()
    for e in range(50):
        novel = episodes.classes[e].tolist()
        playing |= set(novel)
        assert len(set(novel)) == 3
        assert [c for c in range(CLASSES) if not episodes.seen[e, c]] == sorted(novel)
        items = set()
        for k, c in enumerate(novel):
            assert episodes.support[e, k, :, 0].tolist() == [c, c]
            items |= {(c, float(i)) for i in episodes.support[e, k, :, 1]}
        for query, label in zip(episodes.queries[e], episodes.labels[e].tolist(), strict=True):
            c, i = query.tolist()
            assert i > 0, "no example beyond a class's own"
            if label < CLASSES:
                assert c == label
                assert label not in novel
            else:
                assert c == novel[label - CLASSES]
                items.add((c, i))
        assert len(items) == 3 * (2 + 2), "support and queries of a class share no example"
    assert playing == set(range(CLASSES))
    again = draw_fake_episodes(numbered(), shape, 50, torch.Generator().manual_seed(0))
    assert torch.equal(again.queries, episodes.queries)


def test_hidden_rows_have_no_share_in_the_loss():
    shape = EpisodeShape(ways=2, shots=1, novel_queries=1, base_queries=3)
    episodes = draw_fake_episodes(numbered(), shape, 4, torch.Generator().manual_seed(1))
    logits = torch.randn(4, 5, CLASSES + 2, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    losses = []
    for e in range(4):
        visible = [c for c in range(CLASSES) if episodes.seen[e, c]] + [CLASSES, CLASSES + 1]
        for q in range(5):
            shares = np.exp(logits[e, q, visible].numpy())
            losses.append(-np.log(shares[visible.index(int(episodes.labels[e, q]))] / shares.sum()))
    np.testing.assert_allclose(episodes.cross_entropy(logits), np.mean(losses), rtol=1e-12)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (EpisodeShape(ways=7), "7 base classes are to play novel, but there are 7"),
        (EpisodeShape(ways=2, shots=3, novel_queries=2), "3 shots and 2 queries of a class; one has 4 examples"),
    ],
)
def test_too_few_classes_or_examples_are_told(shape, message):
    with pytest.raises(ValueError, match=message):
        check_shape(numbered(), shape)


def test_attention_by_a_loop():
    generator = torch.Generator().manual_seed(0)
    queries, keys, values = (torch.randn(2, n, 3, generator=generator, dtype=torch.float64) for n in (4, 5, 5))
    mask = torch.rand(2, 1, 5, generator=generator) < 0.7
    mask[..., 0] = True
    found = attend(queries, keys, values, 2.5, mask)
    for e in range(2):
        for q in range(4):
            shares = np.array([np.exp(2.5 * float(queries[e, q] @ key)) for key in keys[e]]) * mask[e, 0].numpy()
            expected = (shares[:, None] * values[e].numpy()).sum(0) / shares.sum()
            np.testing.assert_allclose(found[e, q], expected, rtol=1e-10)


def test_dropout_keeps_the_mean():
    numbers = torch.full((100_000,), 2.0)
    found = dropped(numbers, 0.25, torch.Generator().manual_seed(0))
    assert set(found.tolist()) == {0.0, float(torch.tensor(2.0) / 0.75)}
    assert abs(float(found.mean()) - 2) < 0.02
    assert dropped(numbers, 0.0, torch.Generator()) is numbers


class Untrained(TrainingRun):
    """Leaves parameters where they start."""

    def minimise(self, parameters, loss, stage="training"):
        return dict(parameters)


WIDTH = 64
SCALES = {  # standard deviation of random numbers that training starts from, as the papers' initialisations have it
    ("lwof", "keys"): (2 / WIDTH) ** 0.5,
    ("attractor", "common"): 0.01,
    ("attractor", "hidden_map"): 0.01,
    ("attractor", "outcome_map"): 0.01,
    # of four maps with the variance 1 / d: Q^T K / sqrt(d) and F V
    ("cec", "pairs"): 1 / WIDTH,
    ("cec", "values"): WIDTH**-0.5,
    ("etf:hidden=128", "first.weight"): WIDTH**-0.5,
    ("etf:hidden=128", "second.weight"): 128**-0.5,
    ("semantic-distill:hidden=128", "hidden.weight"): (WIDTH + 128) ** -0.5,
    ("semantic-distill:hidden=128", "words.weight"): 128**-0.5,
}


@pytest.mark.parametrize(("spec", "name"), SCALES)
def test_the_scale_of_random_starts(spec, name):
    system = create_method(spec)
    assert isinstance(system, TrainedSystem)
    base = Base(torch.eye(40, WIDTH), embeddings=torch.randn(40, 30, generator=torch.Generator().manual_seed(0)))
    features = TrainingFeatures(torch.ones(40, 20, WIDTH), torch.full((40,), 20), base, "real")
    start = system.train_part(features, Untrained(system.training))[name].double()
    assert float(start.std()) == pytest.approx(SCALES[spec, name], rel=0.3 if start.ndim == 1 else 0.1)
    assert abs(float(start.mean())) < 4 * SCALES[spec, name] / start.numel() ** 0.5


@pytest.mark.parametrize(
    ("name", "steps", "batch"),
    [("lwof", 60_000, 8), ("attractor", 8_000, 1), ("cec", 5_000, 1), ("xtarnet", 12_000, 1)],
)
def test_the_published_length_of_training(name, steps, batch):
    training = create_method(name).training  # type: ignore[attr-defined]
    assert (training.steps, training.batch) == (steps, batch)
