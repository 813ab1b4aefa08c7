"""Every figure of merit of one result, draw by draw: what tables, figures and JSON have in common."""

from dataclasses import dataclass

import numpy as np

from subspan.arrays import FloatArray
from subspan.experiments import metrics
from subspan.experiments.results import MethodResult


@dataclass(frozen=True)
class Summary:
    """Accuracies in percent by draw and session from session 0, and what the draws add up to."""

    weighted: FloatArray  # (draws, sessions + 1): the paper's
    harmonic: FloatArray  # (draws, sessions + 1): class-weighted, the paper's
    plain_harmonic: FloatArray  # (draws, sessions + 1)
    average: FloatArray  # (draws,): of the weighted accuracy
    drop: FloatArray  # (draws,): of the weighted accuracy
    forgetting: FloatArray  # (draws,): from a session's own end to the last session, base session included
    generalized: FloatArray  # (draws,): gAcc
    steps: FloatArray  # (draws,): over all sessions


def summarize(result: MethodResult) -> Summary:
    """Compute all of them from the accuracies a protocol recorded."""
    base_count = result.class_counts[0]
    novel_counts = np.asarray(result.class_counts) - base_count
    base, novel = result.base, result.novel_session_mean
    return Summary(
        weighted=result.weighted,
        harmonic=metrics.class_weighted_harmonic_mean(base, novel, base_count, novel_counts),
        plain_harmonic=metrics.plain_harmonic_mean(result.base, result.novel),
        average=metrics.average_accuracy(result.weighted),
        drop=metrics.performance_drop(result.weighted),
        forgetting=metrics.forgetting_since_birth(
            np.concatenate([result.base[:, :1], result.novel_at_birth], axis=1),
            np.concatenate([result.base[:, -1:], result.novel_at_end], axis=1),
        ),
        generalized=metrics.generalized_accuracy(base, novel, base_count, novel_counts),
        steps=np.asarray(result.steps, dtype=np.float64).sum(axis=1),
    )


def independent_samples(result: MethodResult, values: FloatArray) -> FloatArray:
    """What an interval or a test may count as one sample: ``values (draws, ...)``, or split means ``(splits, ...)``.

    Draws on one split share its classes and its network, so with several splits only the splits are independent.
    """
    if len(np.unique(result.splits)) > 1:
        return metrics.group_means(values, result.splits)
    return np.asarray(values, dtype=np.float64)


def mean_and_half_width(result: MethodResult, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and half of the 95 % interval over the independent samples of ``values (draws, ...)``, both ``(...)``."""
    samples = independent_samples(result, values)
    return samples.mean(axis=0), metrics.interval_half_width(samples)
