"""Nearest class mean, TEEN and ALICE's balanced means, by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from subspan.engine import sessions
from subspan.engine.contract import Base
from subspan.engine.sessions import session_of
from subspan.learners.parts.base_samples import base_samples
from subspan.learners.published.alice import nearest_mean
from subspan.learners.registry import create_method

BASE = Base(
    rows=torch.tensor([[3.0, 4.0], [0.0, 2.0]], dtype=torch.float64),
    means=torch.tensor([[2.0, 0.0], [0.0, 4.0]], dtype=torch.float64),
)
SUPPORT = torch.tensor([[1.0, 0.0], [3.0, 4.0], [-5.0, 0.0]], dtype=torch.float64)
LABELS = torch.tensor([2, 2, 3])


def learn(spec, base=BASE):
    method = create_method(spec)
    return sessions.learn(method, sessions.start(method, base), session_of(SUPPORT, LABELS, (2, 3)))


def score(spec, state, query):
    return create_method(spec).scores(state, torch.tensor([query], dtype=torch.float64))[0]


# Prototypes before any scaling: base means (2, 0), (0, 4); support means (2, 2), (-5, 0). Base centre (1, 2).
NCM = {
    "ncm": ([[2, 0], [0, 4], [2, 2], [-5, 0]], (0.0, 3.0), [0, 1, 0.5**0.5, 0]),
    # (1, 0) and (3, 4) / 5 = (0.6, 0.8) average to (0.8, 0.4)
    "ncm:before=true": ([[1, 0], [0, 1], [0.8, 0.4], [-1, 0]], (0.0, 3.0), [0, 1, 0.2**0.5, 0]),
    "ncm:distance=euclidean": ([[2, 0], [0, 4], [2, 2], [-5, 0]], (1.0, 1.0), [-2, -10, -2, -37]),
    # the query (0, 3) becomes (0, 1)
    "ncm:distance=euclidean,before=true": ([[1, 0], [0, 1], [0.8, 0.4], [-1, 0]], (0.0, 3.0), [-2, 0, -1, -2]),
    "ncm:distance=euclidean,after=true": (
        [[1, 0], [0, 1], [0.5**0.5, 0.5**0.5], [-1, 0]],
        (0.0, 1.0),
        [-2, 0, -0.5 - (1 - 0.5**0.5) ** 2, -2],
    ),
}


@pytest.mark.parametrize("spec", NCM)
def test_nearest_class_mean_by_hand(spec):
    rows, query, expected = NCM[spec]
    found = learn(spec)
    np.testing.assert_allclose(found.rows, rows, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(score(spec, found, query) / 16, expected, rtol=1e-12, atol=1e-12)


def test_more_examples_of_a_class_move_its_mean():
    """Two examples with the mean (2, 2), then one at (8, 2): the mean of all three is (4, 2)."""
    support, means = (torch.tensor([[x, 2.0]], dtype=torch.float64) for x in (8.0, 4.0))
    share = torch.tensor([1 / 3], dtype=torch.float64)
    more = session_of(support, torch.tensor([2]), (2,), means=means, share=share)
    after = create_method("ncm").learn(learn("ncm"), more)
    np.testing.assert_allclose(after.rows, [[2, 0], [0, 4], [4, 2], [-5, 0]], rtol=1e-12)


def test_teen_by_hand():
    """Base prototypes are the two axes; the novel ones (1, 1) / sqrt 2 and (-1, 0)."""
    after = learn("teen:tau=2,alpha=0.25")
    found = after.rows
    np.testing.assert_allclose(found[:2], np.eye(2), rtol=1e-12)
    # as near to one axis as to the other: the shift has the same direction
    np.testing.assert_allclose(found[2], [0.5**0.5, 0.5**0.5], rtol=1e-12)
    shares = np.exp([2 * -1.0, 2 * 0.0])
    shift = shares / np.linalg.norm(shares)
    expected = 0.75 * np.array([-1, 0]) + 0.25 * shift
    np.testing.assert_allclose(found[3], expected / np.linalg.norm(expected), rtol=1e-12)
    np.testing.assert_allclose(score("teen", after, (0.0, 3.0)) / 16, found[:, 1], rtol=1e-12, atol=1e-12)


def test_teen_without_its_shift_is_the_decoupled_cosine():
    query = (0.3, -0.7)
    plain, decoupled = (score(spec, learn(spec), query) for spec in ("teen:alpha=0", "ncm"))
    np.testing.assert_allclose(plain, decoupled, rtol=1e-12)


def test_the_nearest_examples_by_a_loop():
    features = np.random.default_rng(0).normal(size=(4, 30, 6))
    means = features.mean(1)
    found = nearest_mean(features, means, 5)
    for c in range(4):
        order = sorted(range(30), key=lambda i: -features[c, i] @ means[c] / np.linalg.norm(features[c, i]))
        np.testing.assert_allclose(found[c], features[c, order[:5]].mean(0), rtol=1e-6)


def test_alice_without_noise_is_the_decoupled_cosine():
    base = replace(BASE, covariance=torch.zeros(2, 2, dtype=torch.float64))
    rows = learn("alice", base).rows
    np.testing.assert_allclose(rows[:2], np.eye(2), atol=1e-12)
    np.testing.assert_allclose(rows[2:], [[0.5**0.5, 0.5**0.5], [-1, 0]], rtol=1e-12)


def test_draws_have_the_statistics_they_are_drawn_from():
    assert BASE.means is not None
    means, covariance = BASE.means.numpy(), np.array([[2.0, 1.0], [1.0, 0.5]])  # singular
    drawn = base_samples(means, covariance, 20_000, seed=3)
    assert drawn.shape == (2, 20_000, 2)
    for c in range(2):
        np.testing.assert_allclose(drawn[c].mean(0), means[c], atol=0.05)
        np.testing.assert_allclose(np.cov(drawn[c].T), covariance, atol=0.06)
    again = base_samples(means, covariance.copy(), 20_000, seed=3)
    assert np.array_equal(drawn, again)
    assert not np.array_equal(drawn, base_samples(means, covariance, 20_000, seed=4))
