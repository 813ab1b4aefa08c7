"""Calibration: what the threshold and the probabilities promise, checked by simulation."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax

from subspan.catalogue.checkset import CheckSet, chosen_to_keep
from subspan.catalogue.rejection import fit_temperature, log_shares, threshold_for
from subspan.learners.parts.vectors import log_sum


@pytest.mark.parametrize(("count", "share"), [(19, 0.05), (60, 0.05), (200, 0.1)])
def test_at_most_the_promised_share_of_like_photographs_is_rejected(count: int, share: float):
    rng = np.random.default_rng(0)
    rejected = []
    for _ in range(4000):
        known = rng.standard_t(3, size=count + 50)
        threshold = threshold_for(known[:count], share)
        assert threshold is not None
        rejected.append((known[count:] < threshold).mean())
    rate, error = np.mean(rejected), np.std(rejected) / np.sqrt(len(rejected))
    assert rate <= share + 3 * error
    assert rate >= share - 1 / (count + 1) - 3 * error  # nor needlessly few


def test_too_few_examples_promise_nothing():
    assert threshold_for(np.arange(18.0), 0.05) is None
    assert threshold_for(np.arange(19.0), 0.05) == 0.0
    assert threshold_for(np.zeros(0), 0.5) is None


@pytest.mark.parametrize("share", [0.99, 1 - 1e-11, np.nextafter(1.0, 0.0)])
def test_a_share_next_to_one_has_the_most_familiar_photograph_as_its_threshold(share):
    assert threshold_for(np.arange(32.0), share) == 31.0
    assert threshold_for(np.zeros(0), share) is None


def test_the_temperature_finds_back_by_how_much_scores_were_stretched():
    rng = np.random.default_rng(0)
    true = rng.normal(size=(20_000, 5)) * 2
    labels = np.array([rng.choice(5, p=row) for row in softmax(true, axis=1)])
    for stretch in (0.2, 1.0, 7.0):
        assert fit_temperature(true * stretch, labels) == pytest.approx(stretch, rel=0.05)
    probabilities = softmax(true * 7 / fit_temperature(true * 7, labels), axis=1)
    best = probabilities.argmax(axis=1)
    assert probabilities.max(axis=1).mean() == pytest.approx((best == labels).mean(), abs=0.01)


def test_temperature_and_probabilities_are_scipys():
    rng = np.random.default_rng(1)
    scores = rng.normal(scale=900, size=(60, 7))
    labels = np.where(rng.random(60) < 0.7, scores.argmax(axis=1), rng.integers(7, size=60))
    wanted = np.full(scores.shape, 1 / 62 / 6)
    wanted[np.arange(60), labels] = 61 / 62
    found = minimize_scalar(
        lambda t: -(wanted * log_softmax(scores / 900 / np.exp(t), axis=1)).sum(), bounds=(-4, 4), method="bounded"
    )
    assert fit_temperature(scores / 900, labels) == pytest.approx(np.exp(found.x), rel=1e-4)
    np.testing.assert_allclose(np.exp(log_shares(scores)), softmax(scores, axis=1), atol=1e-12)
    np.testing.assert_allclose(log_sum(scores), logsumexp(scores, axis=1), rtol=1e-12)


def test_a_few_right_answers_do_not_make_it_certain():
    scores = np.array([[3.0, 0.0, 0.0]] * 8)
    certainty = softmax(scores / fit_temperature(scores, np.zeros(8, np.int64)), axis=1).max()
    assert 0.8 < certainty < 0.95


def test_no_more_is_kept_than_asked_and_always_the_same():
    names = ["a"] * 100 + ["b"] * 7 + ["c"] * 3 + ["d"] * 2
    chosen = chosen_to_keep(names, keep=10, seed=3)
    counts = {name: int(chosen[np.array(names) == name].sum()) for name in "abcd"}
    assert counts == {"a": 10, "b": 1, "c": 1, "d": 0}
    np.testing.assert_array_equal(chosen, chosen_to_keep(names, keep=10, seed=3))
    assert chosen_to_keep(names, keep=0, seed=0).sum() == 0


@pytest.mark.parametrize("scale", [1e5, 1.0, 1e-4, 1e-6, 1e-9])
def test_features_of_any_scale_are_stored_as_well_as_half_precision_can(scale):
    check = CheckSet(np.float32(scale) * np.array([[1, -0.3], [0.02, 0]], np.float32), ("a", "a"), np.ones(2, bool))
    back = CheckSet.from_arrays(check.to_arrays(["b", "a"]), ["b", "a"])
    np.testing.assert_allclose(back.features, check.features, rtol=1e-3)
    assert back.names == ("a", "a")
