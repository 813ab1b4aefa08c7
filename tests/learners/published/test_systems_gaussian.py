"""FeCAM, its calibrated form and RanPAC against naive loops."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from subspan.engine import sessions
from subspan.engine.contract import Base
from subspan.engine.sessions import session_of
from subspan.learners.parts.base_samples import noise, root_of
from subspan.learners.registry import create_method

C0, K, D = 4, 2, 5
RANDOM = np.random.default_rng(1)


def positive(*shape):
    return RANDOM.random(shape) + 0.2


SPREAD = RANDOM.normal(size=(D, D)) * 0.3
BASE = Base(rows=positive(C0, D), means=3 * positive(C0, D), covariance=SPREAD @ SPREAD.T)
SUPPORT = positive(2, 7, D)  # two problems
LABELS = np.tile([C0, C0 + 1, C0, C0, C0 + 1, C0, C0 + 1], (2, 1))
QUERIES = positive(6, D)


def learn(method, base=BASE, support=SUPPORT):
    """The state of all problems after one session."""
    session = session_of(support, LABELS[: len(support)], (C0, C0 + 1))
    return method.learn(sessions.start(method, base, len(support)), session)


def correlation(covariance, shrink, rest):
    off = ~np.eye(D, dtype=bool)
    grown = covariance + shrink * np.diag(covariance).mean() * np.eye(D)
    grown[off] += rest * max(covariance[off].mean(), 0)
    return grown / np.sqrt(np.outer(np.diag(grown), np.diag(grown)))


def unit(x):
    return x / np.linalg.norm(x)


@pytest.mark.parametrize("calibrated", [False, True])
def test_fecam_by_a_loop(calibrated):
    options = {"tukey": 1.0, "shrink": 2.0, "shrink_rest": 0.5} | ({"alpha": 0.3, "tau": 4.0} if calibrated else {})
    method = create_method("calibrated-fecam" if calibrated else "fecam", **options)
    found = method.scores(learn(method), QUERIES)
    shared, base_means = BASE.covariance, [unit(mean) for mean in BASE.means]
    for problem in range(2):
        for c in range(C0 + K):
            if c < C0:
                mean, covariance = base_means[c], shared
            else:
                examples = SUPPORT[problem][LABELS[problem] == c]
                mean, covariance = unit(examples.mean(0)), np.cov(examples.T)
                if calibrated:
                    shares = np.exp([4.0 * mean @ other for other in base_means])
                    mean = unit(0.7 * mean + 0.3 * unit(shares @ np.array(base_means)))
                    covariance = covariance + shared
            inverse = np.linalg.inv(correlation(covariance.copy(), 2.0, 0.5))
            for q, query in enumerate(QUERIES):
                difference = unit(query) - mean
                assert found[problem, q, c].item() == pytest.approx(-difference @ inverse @ difference, rel=1e-9)


def test_tukeys_power_is_taken_of_positive_parts():
    method = create_method("fecam")
    np.testing.assert_allclose(method.transform(np.array([[4.0, -1.0, 0.25]])), [[2.0, 0.0, 0.5]])  # type: ignore[attr-defined]
    base = replace(BASE, covariance=np.zeros((D, D)))  # every draw is its class mean
    np.testing.assert_allclose(method.start(base).rows[:, :D], np.sqrt(BASE.means), rtol=1e-12)


def test_fewer_factors_keep_the_largest_part_of_the_covariance():
    """Of examples at +-3 along one axis and +-1 along another, one factor keeps the first."""
    support = np.zeros((1, 7, D))
    support[0, [0, 2, 3, 5], :2] = [[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    method = create_method("fecam:tukey=1,factors=1")
    _, factors = method.unpack(learn(method, support=support))  # type: ignore[attr-defined]
    np.testing.assert_allclose(abs(factors[0, C0, 0]), [(18 / 3) ** 0.5, 0, 0, 0, 0], atol=1e-12)
    assert not factors[0, :C0].any()


def test_more_examples_give_the_statistics_of_all():
    """Two examples and then three have mean and, up to its divisors, covariance of all five."""
    method = create_method("fecam:tukey=1")
    first, second = SUPPORT[0, :2], SUPPORT[0, 2:5]
    state = method.learn(method.start(BASE), session_of(first, np.full(2, C0), (C0,)))
    means, share = SUPPORT[0, :5].mean(0)[None], np.array([3 / 5])
    more = session_of(second, np.full(3, C0), (C0,), means=means, share=share)
    means, factors = method.unpack(method.learn(state, more))  # type: ignore[attr-defined]
    mean, factors = means[C0], factors[C0]
    np.testing.assert_allclose(mean, SUPPORT[0, :5].mean(0), rtol=1e-12)
    apart = first.mean(0) - second.mean(0)
    parts = 2 / 5 * np.cov(first.T) + 3 / 5 * np.cov(second.T) + 6 / 25 * np.outer(apart, apart)
    np.testing.assert_allclose(factors.mT @ factors, parts, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("width", "alpha"), [(30, 0.0), (300, 0.4)])
def test_ranpac_is_ridge_regression_on_drawn_examples(width, alpha):
    """The same draws, one class after the other, and scikit-learn's regression on one-hot targets."""
    method = create_method(f"ranpac:width={width},factors=3,samples=40,ridge=0.2,beta=0.25,alpha={alpha},seed=7")
    state = learn(method)
    rows = state.rows.copy()
    rows[1, 0] += 0.1  # a base class that has learned more in one of the problems
    found = method.scores(state.after(rows=rows), QUERIES)
    means, factors = method.unpack(state.after(rows=rows))  # type: ignore[attr-defined]
    projection, root = noise((D, width), 7, QUERIES), root_of(BASE.covariance)
    np.testing.assert_allclose(root @ root.T, BASE.covariance, atol=1e-12)
    for problem in range(2):
        examples = []
        for c in range(C0 + K):
            drawn = noise((40, D + 3), 7 + 1 + c, QUERIES)
            spread = drawn[:, :D] @ root.T + drawn[:, D:] @ factors[problem, c]
            similar = np.exp([16 * unit(means[problem, c]) @ unit(means[problem, b]) for b in range(C0)])
            borrowed = similar / similar.sum() @ means[problem, :C0]
            novel = (1 - alpha) * means[problem, c] + alpha * borrowed + 0.5 * spread
            examples.append(means[problem, c] + spread if c < C0 else novel)
        points = np.maximum(np.concatenate(examples) @ projection, 0)
        decay = 0.2 * (points**2).sum(0).mean()
        targets = np.repeat(np.eye(C0 + K), 40, axis=0)
        ridge = Ridge(alpha=decay, fit_intercept=False).fit(points, targets)
        expected = ridge.predict(np.maximum(QUERIES @ projection, 0))
        np.testing.assert_allclose(found[problem], expected, rtol=1e-7, atol=1e-9)


def test_ranpacs_ridge_is_the_best_on_held_out_examples_with_classes_counted_alike():
    """The first fifth of each class is held out; every class weighs the same, in the regression and in its error."""
    chosen, choices = [], (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    method = create_method("ranpac")
    for seed in range(8):
        rng = np.random.default_rng(seed)
        labels = np.repeat(np.arange(3), (40, 15, 7))
        seen = np.maximum(rng.normal(size=(3, 12))[labels] + (1 + labels[:, None]) * rng.normal(size=(62, 12)), 0)
        held = np.concatenate([np.flatnonzero(labels == c)[: np.bincount(labels)[c] // 5] for c in range(3)])
        kept = np.setdiff1d(np.arange(62), held)
        weight = 1 / np.bincount(labels[kept])[labels[kept]]
        decay = (weight[:, None] * seen[kept] ** 2).sum(0).mean()
        errors = []
        for ridge in choices:
            fit = Ridge(alpha=ridge * decay, fit_intercept=False)
            fit.fit(seen[kept], np.eye(3)[labels[kept]], sample_weight=weight)
            missed = ((fit.predict(seen[held]) - np.eye(3)[labels[held]]) ** 2).sum(1)
            errors.append(np.mean([missed[labels[held] == c].mean() for c in range(3)]))
        chosen.append(choices[int(np.argmin(errors))])
        assert method.chosen_ridge(seen, labels) == chosen[-1]  # type: ignore[attr-defined]
    assert {choices[0], choices[-1]} < set(chosen), "or the ends of the list are never seen"
