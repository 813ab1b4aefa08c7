"""Streaming LDA against a plain loop that takes one example after the other."""

import numpy as np
import pytest

from subspan.engine.contract import Base
from subspan.engine.sessions import session_of
from subspan.learners.registry import create_method

WIDTH, CLASSES = 6, 5


def stream(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Examples (n, d) of classes 0 to 2, then of 3 and 4, then more of 1 and 4; labels (n,)."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.repeat([0, 1, 2], 12), np.repeat([3, 4], 3), [1, 4, 1]])
    return 2 * rng.normal(size=(CLASSES, WIDTH))[y] + rng.normal(size=(len(y), WIDTH)), y


def naive_scores(X: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Welford's update of means and scatter, example by example; then each score by its sums."""
    means, counts, scatter = np.zeros((CLASSES, WIDTH)), np.zeros(CLASSES), np.zeros((WIDTH, WIDTH))
    for x, label in zip(X, y, strict=True):
        counts[label] += 1
        before = x - means[label]
        means[label] += before / counts[label]
        scatter += np.outer(x - means[label], before)
    shrunken = (1 - 1e-4) * scatter / len(X) + 1e-4 * np.eye(WIDTH)
    return np.array(
        [[q @ np.linalg.solve(shrunken, m) - m @ np.linalg.solve(shrunken, m) / 2 for m in means] for q in queries]
    )


def taught(X: np.ndarray, y: np.ndarray):
    """The learner and its state after the base classes, two new ones and more of two."""
    learner = create_method("slda")
    base, new, more = slice(36), slice(36, 42), slice(42, None)
    means = np.stack([X[base][y[base] == c].mean(0) for c in range(3)])
    state = learner.start(Base(means=means, covariance=np.eye(WIDTH), examples=X[base], labels=y[base]))
    state = learner.learn(state, session_of(X[new], y[new], [3, 4]))
    share = np.array([2 / 14, 1 / 4])  # of classes 1 and 4
    return learner, learner.learn(state, session_of(X[more], y[more], [1, 4], share=share))


def test_scores_are_those_of_a_loop_over_examples():
    X, y = stream()
    queries = np.random.default_rng(1).normal(size=(7, WIDTH))
    learner, state = taught(X, y)
    np.testing.assert_allclose(learner.scores(state, queries), naive_scores(X, y, queries), rtol=1e-9)


def test_the_order_of_examples_does_not_matter():
    X, y = stream()
    rng, order = np.random.default_rng(2), np.arange(len(y))
    for part in (order[:36], order[36:42], order[42:]):
        rng.shuffle(part)
    queries = rng.normal(size=(7, WIDTH))
    (learner, state), (_, shuffled) = taught(X, y), taught(X[order], y[order])
    np.testing.assert_allclose(learner.scores(shuffled, queries), learner.scores(state, queries), rtol=1e-9)


def test_from_statistics_the_covariance_stays():
    X, y = stream()
    learner, means = create_method("slda"), np.stack([X[y == c].mean(0) for c in range(3)])
    covariance = np.diag(np.arange(1.0, WIDTH + 1))
    state = learner.start(Base(means=means, covariance=covariance))
    state = learner.learn(state, session_of(X[36:42], y[36:42], [3, 4]))
    query = X[40]
    weights = (1 - 1e-4) * np.diagonal(covariance) + 1e-4
    expected = [(query * m / weights).sum() - (m * m / weights).sum() / 2 for m in (*means, *state.rows[3:])]
    np.testing.assert_allclose(learner.scores(state, query[None])[0], expected)


def test_shrinkage_must_be_positive():
    with pytest.raises(ValueError, match="shrinkage must be positive"):
        create_method("slda:shrinkage=0")
