"""Metrics against hand-computed cases, SciPy, the golden file's own numbers and properties."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from subspan.experiments.metrics import (
    class_weighted_accuracy,
    class_weighted_harmonic_mean,
    forgetting_since_birth,
    generalized_accuracy,
    group_means,
    interval_half_width,
    joint_gap,
    paired_tests,
    plain_harmonic_mean,
)

accuracy = st.floats(0.01, 100.0)
count = st.integers(1, 1000)


# Fine-tuning without memory on the first bundled split, as an independent implementation reported it.
GOLDEN_BASE = [75.8, 58.6, 46.8, 41.933, 40.467, 40.467, 39.333, 34.733, 34.733]
GOLDEN_NOVEL = [np.nan, 68.8, 48.8, 30.4, 28.6, 26.72, 22.133, 18.4, 15.8]
GOLDEN_WEIGHTED = [75.8, 59.385, 47.086, 39.627, 37.5, 36.424, 33.6, 28.716, 27.16]
NOVEL_COUNTS = np.arange(0, 45, 5)


def test_class_weighted_accuracy_meets_the_golden_file():
    weighted = class_weighted_accuracy(GOLDEN_BASE, GOLDEN_NOVEL, 60, NOVEL_COUNTS)
    np.testing.assert_allclose(weighted, GOLDEN_WEIGHTED, atol=1e-3)


def test_class_weighted_accuracy_broadcasts_over_draws():
    weighted = class_weighted_accuracy([[80.0, 60.0], [70.0, 50.0]], [[np.nan, 0.0], [np.nan, 50.0]], 2, [0, 1])
    np.testing.assert_allclose(weighted, [[80.0, 40.0], [70.0, 50.0]])


@given(accuracy, accuracy, count, count)
def test_class_weighted_harmonic_mean_is_scipys_weighted_one(base, novel, base_count, novel_count):
    ours = class_weighted_harmonic_mean(base, novel, base_count, novel_count)
    np.testing.assert_allclose(ours, stats.hmean([base, novel], weights=[base_count, novel_count]))


@given(accuracy, accuracy)
def test_plain_harmonic_mean_is_scipys(base, novel):
    np.testing.assert_allclose(plain_harmonic_mean(base, novel), stats.hmean([base, novel]))


@given(accuracy, accuracy, count, count)
def test_harmonic_mean_lies_between_the_lower_accuracy_and_the_weighted_mean(base, novel, base_count, novel_count):
    harmonic = class_weighted_harmonic_mean(base, novel, base_count, novel_count)
    weighted = class_weighted_accuracy(base, novel, base_count, novel_count)
    assert min(base, novel) * (1 - 1e-12) <= harmonic <= weighted * (1 + 1e-12)
    assert weighted <= max(base, novel) * (1 + 1e-12)


@given(accuracy, accuracy, count, count, st.floats(0.1, 20.0))
def test_means_rise_with_novel_accuracy(base, novel, base_count, novel_count, gain):
    for mean in (class_weighted_accuracy, class_weighted_harmonic_mean):
        assert mean(base, novel, base_count, novel_count) < mean(base, novel + gain, base_count, novel_count)


@given(accuracy, accuracy, count, count)
def test_harmonic_means_are_symmetric(base, novel, base_count, novel_count):
    swapped = class_weighted_harmonic_mean(novel, base, novel_count, base_count)
    np.testing.assert_allclose(class_weighted_harmonic_mean(base, novel, base_count, novel_count), swapped)
    np.testing.assert_allclose(plain_harmonic_mean(base, novel), plain_harmonic_mean(novel, base))


@pytest.mark.parametrize(("base", "novel"), [(0.0, 50.0), (50.0, 0.0), (0.0, 0.0)])
def test_harmonic_mean_of_zero_is_zero_without_a_warning(base, novel):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert class_weighted_harmonic_mean(base, novel, 60, 5) == 0
        assert plain_harmonic_mean(base, novel) == 0


def test_session_zero_is_the_base_accuracy_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert class_weighted_accuracy(75.8, np.nan, 60, 0) == 75.8
        assert class_weighted_harmonic_mean(75.8, np.nan, 60, 0) == 75.8
        assert plain_harmonic_mean(75.8, np.nan) == 75.8


def test_counts_below_zero_are_refused():
    with pytest.raises(ValueError, match="class counts"):
        class_weighted_accuracy(50, 50, 60, -5)
    with pytest.raises(ValueError, match="class counts"):
        class_weighted_harmonic_mean(50, 50, 0, 5)


def test_forgetting_is_measured_from_birth_and_needs_an_earlier_session():
    assert forgetting_since_birth([80, 50, 40, 90], [60, 45, 42, 90]) == pytest.approx((20 + 5 - 2) / 3)
    two_draws = forgetting_since_birth([[80, 50, 30], [70, 40, 20]], [[60, 40, 30], [70, 32, 20]])
    np.testing.assert_allclose(two_draws, [15, 4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(forgetting_since_birth([80.0], [80.0]))


def naive_generalized_accuracy(base, novel_by_session, ratio):
    """Tang et al.'s metric from the accuracy of every single session, in plain loops."""
    curve = []
    for alpha in range(ratio + 1):
        values = []
        for k, base_accuracy in enumerate(base):
            if k == 0:
                values.append(base_accuracy if alpha else 0.0)
            else:
                values.append((alpha * base_accuracy + sum(novel_by_session[k])) / (alpha + k))
        curve.append(sum(values) / len(values))
    return sum((left + right) / 2 for left, right in pairwise(curve)) / ratio


@given(st.integers(1, 6), st.integers(1, 15), st.integers(0, 2**31))
def test_generalized_accuracy_is_the_naive_one(sessions, ratio, seed):
    generator = np.random.default_rng(seed)
    base = generator.uniform(0, 100, sessions + 1)
    by_session = [generator.uniform(0, 100, k) for k in range(sessions + 1)]
    novel = [np.nan, *(np.mean(values) for values in by_session[1:])]
    ours = generalized_accuracy(base, novel, 5 * ratio, 5 * np.arange(sessions + 1))
    assert ours == pytest.approx(naive_generalized_accuracy(base, by_session, ratio))


def test_generalized_accuracy_prefers_balance_where_weighted_accuracy_does_not():
    stubborn = generalized_accuracy([80, 80, 80], [np.nan, 0, 0], 60, [0, 5, 10])
    balanced = generalized_accuracy([80, 76, 76], [np.nan, 40, 40], 60, [0, 5, 10])
    assert balanced > stubborn
    both = generalized_accuracy([[80, 80, 80], [80, 76, 76]], [[np.nan, 0, 0], [np.nan, 40, 40]], 60, [0, 5, 10])
    np.testing.assert_allclose(both, [stubborn, balanced])


def test_generalized_accuracy_of_session_zero_alone():
    assert 0 < generalized_accuracy([80.0], [np.nan], 60, [0]) <= 80


def test_generalized_accuracy_refuses_counts_of_another_length():
    with pytest.raises(ValueError, match="one entry per session"):
        generalized_accuracy([80, 70], [np.nan, 10], 60, [0, 5, 10])


def test_joint_gap_by_hand():
    assert joint_gap(60, 50, 70, 80) == -20  # (-10 + -30) / 2
    assert joint_gap(0, 0, 0, 0) == 0  # always wrong: the caveat


def test_interval_by_hand():
    # mean 44, deviation sqrt(10), t(0.975, 4) = 2.776445
    assert interval_half_width([40, 42, 44, 46, 48]) == pytest.approx(2.776445 * np.sqrt(10 / 5), rel=1e-6)
    assert interval_half_width([40, 42, 44, 46, 48], distribution="normal") == pytest.approx(
        1.959964 * np.sqrt(2), rel=1e-6
    )


@given(st.lists(st.floats(0, 100), min_size=2, max_size=20).filter(lambda values: np.std(values) > 1e-6))
def test_interval_is_scipys(values):
    low, high = stats.t.interval(0.95, len(values) - 1, loc=np.mean(values), scale=stats.sem(values))
    assert interval_half_width(values) == pytest.approx((high - low) / 2, rel=1e-9)


def test_interval_of_one_sample_is_nan_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half_width = interval_half_width(np.ones((1, 3)))
    assert half_width.shape == (3,)
    assert np.isnan(half_width).all()


def test_samples_that_are_all_the_same_have_no_interval():
    assert np.isnan(interval_half_width([75.1] * 5))
    assert np.isnan(interval_half_width(np.array([0.1 + 0.2, 0.3]))), "but for rounding"
    half_widths = interval_half_width([[0.0, 1.0], [0.0, 1.0], [0.0, 1.000001]])
    np.testing.assert_array_equal(np.isnan(half_widths), [True, False])


def test_group_means_average_the_draws_of_a_split():
    means = group_means([[1.0, 10.0], [3.0, 20.0], [7.0, 5.0]], [4, 4, 2])
    np.testing.assert_array_equal(means, [[7.0, 5.0], [2.0, 15.0]])


def test_paired_tests_are_scipys_with_bonferroni():
    generator = np.random.default_rng(0)
    draw = generator.normal(0, 3, 12)  # what all methods share: the reason to pair
    samples = {name: level + draw + generator.normal(0, 1, 12) for name, level in {"a": 50, "b": 49.2, "c": 44}.items()}
    tests = paired_tests(samples)
    assert tests["a"].best
    assert tests["a"].p_value == 1
    for name in ("b", "c"):
        expected = min(1.0, 2 * stats.ttest_rel(samples["a"], samples[name]).pvalue)
        assert tests[name].p_value == pytest.approx(expected)
        assert tests[name].not_below == (expected >= 0.05)
    assert not tests["c"].not_below


def test_bonferroni_grows_with_the_number_of_methods():
    best, other = [3.0, 4.1, 5.0, 6.2], [2.5, 3.9, 4.6, 5.5]
    two = paired_tests({"best": best, "other": other})["other"].p_value
    three = paired_tests({"best": best, "other": other, "third": [0, 0.1, 0.2, 0.1]})["other"].p_value
    assert three == pytest.approx(2 * two)


def test_differences_without_spread_are_no_test_and_give_no_warning():
    best = np.array([3.3, 74.1, 16.2])  # the same less 1.1 differs from it by three numbers, in the last digit
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tests = paired_tests({"a": best, "same": best, "shifted": best - 1.1, "tested": best - [1.0, 1.1, 1.2]})
    assert len(set(best - (best - 1.1))) == 3
    assert np.isnan([tests["same"].p_value, tests["shifted"].p_value]).all()
    assert tests["same"].not_below
    assert not tests["shifted"].not_below
    assert tests["tested"].p_value == pytest.approx(3 * stats.ttest_1samp([1.0, 1.1, 1.2], 0).pvalue)


def test_one_sample_tests_nothing():
    tests = paired_tests({"a": [50.0], "b": [40.0]})
    assert np.isnan(tests["b"].p_value)
    assert not tests["b"].not_below
    assert tests["a"].best


def test_paired_tests_refuse_unpaired_samples():
    with pytest.raises(ValueError, match="one length"):
        paired_tests({"a": [1.0, 2.0], "b": [1.0]})
    assert paired_tests({}) == {}
