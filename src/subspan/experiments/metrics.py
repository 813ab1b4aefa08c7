"""Figures of merit of few-shot class-incremental learning: pure functions on accuracies, with NumPy and SciPy only.

Accuracies are in percent. Session axes start at session 0, where no novel class exists yet: there novel accuracy is NaN
and every combination of base and novel accuracy is the base accuracy.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtr, stdtrit

from subspan.arrays import FloatArray

ROUNDING = 1e-9  # relative; a test image more or less is far above it


def class_weighted_accuracy(
    base: ArrayLike, novel: ArrayLike, base_count: ArrayLike, novel_count: ArrayLike
) -> FloatArray:
    """Mean of base and novel accuracy, weighted by their numbers of classes: the paper's "weighted average".

    All four broadcast, say ``base (draws, sessions + 1)`` and ``novel_count (sessions + 1,)``. Where ``novel_count`` is
    0 the result is the base accuracy, whatever ``novel`` holds.

    >>> class_weighted_accuracy([75.0, 60.0], [np.nan, 30.0], 60, [0, 30]).tolist()
    [75.0, 50.0]
    """
    base, novel, base_count, novel_count = _base_and_novel(base, novel, base_count, novel_count)
    weighted = (base_count * base + novel_count * novel) / (base_count + novel_count)
    return np.where(novel_count == 0, base, weighted)


def class_weighted_harmonic_mean(
    base: ArrayLike, novel: ArrayLike, base_count: ArrayLike, novel_count: ArrayLike
) -> FloatArray:
    """Harmonic mean that takes the ratio of base to novel classes into account: (n_b + n_n) / (n_b / a_b + n_n / a_n).

    All four broadcast. 0 where either accuracy is 0; the base accuracy where ``novel_count`` is 0.

    >>> class_weighted_harmonic_mean([75.0, 60.0, 60.0], [np.nan, 30.0, 0.0], 60, [0, 30, 30]).tolist()
    [75.0, 45.0, 0.0]
    """
    base, novel, base_count, novel_count = _base_and_novel(base, novel, base_count, novel_count)
    # Multiplied out, so that an accuracy of 0 divides nothing.
    numerator = (base_count + novel_count) * base * novel
    denominator = base_count * novel + novel_count * base
    mean = numerator / np.where(denominator == 0, 1.0, denominator)
    return np.where(novel_count == 0, base, mean)


def plain_harmonic_mean(base: ArrayLike, novel: ArrayLike) -> FloatArray:
    """Harmonic mean 2 a_b a_n / (a_b + a_n) that most later papers report.

    Both broadcast. 0 where either accuracy is 0; the base accuracy where ``novel`` is NaN (session 0).

    >>> plain_harmonic_mean([75.0, 60.0, 60.0], [np.nan, 30.0, 0.0]).tolist()
    [75.0, 40.0, 0.0]
    """
    return class_weighted_harmonic_mean(base, novel, 1, np.where(np.isnan(novel), 0, 1))


def forgetting_since_birth(at_birth: ArrayLike, at_end: ArrayLike) -> FloatArray:
    """How far each session's classes fell since they were learned, averaged over the sessions before the last.

    ``at_birth (..., T)`` is the accuracy on a session's classes right after that session, ``at_end (..., T)`` the
    accuracy on the same classes after the last one, both from session 0. The result ``(...)`` is NaN when there is no
    earlier session. It is never above the forgetting of Chaudhry et al., ECCV 2018, which measures from the best
    accuracy ever reached, and it is minus the backward transfer of Lopez-Paz and Ranzato, NeurIPS 2017.

    >>> float(forgetting_since_birth([80.0, 50.0, 30.0], [60.0, 40.0, 30.0]))
    15.0
    """
    lost = (np.asarray(at_birth, dtype=np.float64) - np.asarray(at_end, dtype=np.float64))[..., :-1]
    return np.asarray(lost.mean(axis=-1)) if lost.shape[-1] else np.full(lost.shape[:-1], np.nan)


def generalized_accuracy(base: ArrayLike, novel: ArrayLike, base_count: int, novel_counts: ArrayLike) -> FloatArray:
    """gAcc: accuracy averaged over all weights of the base session between none and its number of classes.

    ``base, novel (..., sessions + 1)`` and ``novel_counts (sessions + 1,)``, the novel classes seen after each session,
    from 0. With session ``k``'s novel accuracy ``n_k`` the mean over its ``k`` novel sessions, and a weight ``a`` for
    the base session where each novel session has weight 1,

        g(a) = mean over k of (a b_k + k n_k) / (a + k),    gAcc = 1/r * area under g(a) from a = 0 to a = r,

    where ``r = base_count / (classes per novel session)``: at ``a = r`` classes weigh the same (the usual accuracy), at
    ``a = 0`` only novel classes count. The area is taken by the trapezoidal rule at r + 1 equally spaced weights (the
    integers when r is one), and session 0 counts as 0 at ``a = 0``, both as in the code the authors released, so that
    values compare with published ones. (The two choices are our reading of that code; the text we have names only the
    area.)

    References
    ----------
    Tang et al., Rethinking Few-shot Class-incremental Learning: Learning from Yourself, ECCV 2024.

    >>> # r = 2; a = 0, 1, 2: session 0 gives 0, 80, 80; session 1 gives 20, 40, (2 * 60 + 20) / 3
    >>> round(float(generalized_accuracy([80.0, 60.0], [np.nan, 20.0], 10, [0, 5])), 4)
    48.3333
    """
    base, novel = np.asarray(base, dtype=np.float64), np.asarray(novel, dtype=np.float64)
    counts = np.asarray(novel_counts)
    k = np.arange(base.shape[-1], dtype=np.float64)
    if counts.shape != k.shape or counts[0] != 0:
        raise ValueError(f"novel_counts needs one entry per session from 0 at session 0; got {counts.tolist()}")
    ratio = base_count * (len(k) - 1) / counts[-1] if len(k) > 1 else 1.0
    weight = np.linspace(0.0, ratio, max(1, round(ratio)) + 1)[:, None]  # (r + 1, 1)
    novel_sum = np.where(k == 0, 0.0, k * novel)[..., None, :]  # (..., 1, sessions + 1)
    total = np.where(weight + k == 0, 1.0, weight + k)
    by_weight = np.mean((weight * base[..., None, :] + novel_sum) / total, axis=-1)  # (..., r + 1)
    area = np.sum(np.diff(weight[:, 0]) * (by_weight[..., 1:] + by_weight[..., :-1]) / 2, axis=-1)
    return np.asarray(area / ratio)


def joint_gap(joint_base: ArrayLike, joint_novel: ArrayLike, own_base: ArrayLike, own_novel: ArrayLike) -> FloatArray:
    """Delta of the single-session setting: what base and novel queries lose when all classes compete; all broadcast.

    ``joint_*`` is the accuracy of one half's queries among all classes, ``own_*`` among the half's own classes. The
    result is the mean over both halves of joint minus own: at most 0, and closer to 0 is better. A model that is always
    wrong has the best value, 0; read it beside the accuracy only.

    References
    ----------
    Ren et al., Incremental Few-Shot Learning with Attention Attractor Networks, NeurIPS 2019.

    >>> float(joint_gap(joint_base=60.0, joint_novel=50.0, own_base=70.0, own_novel=80.0))
    -20.0
    """
    base_gap = np.asarray(joint_base, dtype=np.float64) - np.asarray(own_base, dtype=np.float64)
    novel_gap = np.asarray(joint_novel, dtype=np.float64) - np.asarray(own_novel, dtype=np.float64)
    return np.asarray((base_gap + novel_gap) / 2)


def interval_half_width(
    samples: ArrayLike, axis: int = 0, level: float = 0.95, distribution: Literal["t", "normal"] = "t"
) -> FloatArray:
    """Half the width of the confidence interval of a mean over ``axis``; NaN where the samples have no spread.

    One sample has none, nor have samples that are all the same: how far another one would be off they do not tell.

    ``"t"`` is Student's, for a handful of draws or splits; ``"normal"`` is the 1.96 standard errors usual for thousands
    of episodes.

    >>> round(float(interval_half_width([1.0, 2.0, 3.0])), 4)  # 4.3027 * 1 / sqrt(3)
    2.4841
    """
    samples = np.asarray(samples, dtype=np.float64)
    count = samples.shape[axis]
    if count < 2:
        return np.full(np.delete(samples.shape, axis), np.nan)
    upper = (1 + level) / 2
    quantile = stdtrit(count - 1, upper) if distribution == "t" else ndtri(upper)
    half_width = quantile * samples.std(axis=axis, ddof=1) / np.sqrt(count)
    return np.where(_constant(samples, np.abs(samples).max(axis=axis), axis), np.nan, half_width)


def group_means(values: ArrayLike, groups: ArrayLike) -> FloatArray:
    """Mean of ``values (n, ...)`` within each group of ``groups (n,)``, groups in sorted order: ``(g, ...)``.

    Draws on one split share their classes and are no independent samples: intervals over splits take split means.

    >>> group_means([1.0, 3.0, 10.0], [0, 0, 1]).tolist()
    [2.0, 10.0]
    """
    values, groups = np.asarray(values, dtype=np.float64), np.asarray(groups)
    return np.stack([values[groups == group].mean(axis=0) for group in np.unique(groups)])


@dataclass(frozen=True)
class PairedTest:
    """One method against the best of its column."""

    p_value: float  # two-sided, after Bonferroni correction; 1 for the best itself, NaN where there is no test
    best: bool
    not_below: bool  # the best or equal to it, or not significantly different; False where nothing can be tested


def paired_tests(
    samples: Mapping[str, ArrayLike], level: float = 0.05, against: str | None = None
) -> dict[str, PairedTest]:
    """Compare every method with the one of the highest mean, by paired t-tests with Bonferroni correction.

    ``against`` names another one to compare with; it stands in the place of the best.

    ``samples`` maps a method to its values ``(n,)`` on the same draws, splits or episodes in the same order. The
    correction multiplies each p-value by the number of comparisons, the number of methods minus one. There is no test
    with fewer than two samples, nor where the differences are all the same: they have no spread to measure by.

    >>> tests = paired_tests({"a": [50, 52, 54], "b": [49, 53, 53], "c": [40, 41, 45]})
    >>> [name for name, test in tests.items() if test.not_below]
    ['a', 'b']
    """
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in samples.items()}
    lengths = {name: array.shape for name, array in arrays.items()}
    if len(set(lengths.values())) > 1 or any(len(shape) != 1 for shape in lengths.values()):
        raise ValueError(f"paired samples must be vectors of one length; got {lengths}")
    tests = {}
    best = against or max(arrays, key=lambda name: arrays[name].mean(), default="")
    for name, array in arrays.items():
        p_value = float(np.minimum(1.0, (len(arrays) - 1) * paired_difference(arrays[best], array).p_value))
        if name == best and len(array) > 1:
            p_value = 1.0
        not_below = np.array_equal(array, arrays[best]) or p_value >= level
        tests[name] = PairedTest(p_value, name == best, bool(not_below))
    return tests


@dataclass(frozen=True)
class PairedDifference:
    """How far one method is ahead of another on the same samples; NaN where the differences have no spread."""

    mean: float
    half_width: float  # of the 95 % interval (Student t)
    p_value: float  # two-sided paired t-test, not corrected
    effect: float  # Cohen's d of paired samples: the mean in standard deviations of the differences
    count: int


def paired_difference(values: ArrayLike, others: ArrayLike) -> PairedDifference:
    """``values (n,)`` less ``others (n,)``, on the same draws, splits or episodes in the same order.

    >>> found = paired_difference([52.0, 55.0, 57.0], [51.0, 52.0, 55.0])  # differences of 1, 3 and 2
    >>> found.mean, found.effect, found.count
    (2.0, 2.0, 3)
    """
    first, second = np.asarray(values, dtype=np.float64), np.asarray(others, dtype=np.float64)
    differences = first - second
    mean, count = float(differences.mean()), len(differences)
    if count < 2 or _constant(differences, max(np.abs(first).max(), np.abs(second).max())):
        return PairedDifference(mean, np.nan, np.nan, np.nan, count)
    half_width, effect = float(interval_half_width(differences)), mean / float(differences.std(ddof=1))
    p_value = float(2 * stdtr(count - 1, -abs(effect) * np.sqrt(count)))
    return PairedDifference(mean, half_width, p_value, effect, count)


def _constant(samples: FloatArray, scale: ArrayLike, axis: int = 0) -> NDArray[np.bool_]:
    """Whether samples that come of numbers of this size are all the same over ``axis``, but for rounding."""
    return np.ptp(samples, axis=axis) <= ROUNDING * np.asarray(scale)


def _base_and_novel(
    base: ArrayLike, novel: ArrayLike, base_count: ArrayLike, novel_count: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The four as float arrays, novel accuracy 0 where there are no novel classes."""
    base_count, novel_count = np.asarray(base_count, dtype=np.float64), np.asarray(novel_count, dtype=np.float64)
    if np.any(base_count <= 0) or np.any(novel_count < 0):
        raise ValueError(
            f"class counts must be positive for base, not negative for novel; got {base_count}, {novel_count}"
        )
    novel = np.where(novel_count == 0, 0.0, np.asarray(novel, dtype=np.float64))
    return np.asarray(base, dtype=np.float64), novel, base_count, novel_count
