"""What a protocol run leaves behind: one record per method and setting, with its figures of merit by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.experiments import metrics

BY_DRAW = (  # the arrays of a MethodResult that have a row for each draw
    *("accuracy", "class_mean", "base", "novel", "novel_session_mean"),
    *("steps", "novel_at_birth", "novel_at_end", "forgotten"),
)
TRANSDUCTIVE = "transductive: it answers a query by the others asked with it; compare it with its like alone"
BY_EPISODE = ("base", "novel", "base_alone", "novel_alone", "steps")  # and of an EpisodeResult for each episode


@dataclass(frozen=True)
class WeightSpace:
    """The rows of one head after a session, for the picture of the weight space."""

    base: FloatArray  # (C0, d)
    novel: FloatArray  # (C1, d)
    targets: FloatArray  # (C1, d): what each novel row was pulled towards at the end of its session
    base_names: tuple[str, ...]
    novel_names: tuple[str, ...]
    moving: bool  # a subspace target moves with its row; a semantic one does not


@dataclass(frozen=True)
class MethodResult:
    """One method under one memory setting, over all draws (support draws, or splits times draws).

    Accuracies are in percent, indexed (draw, session) from session 0, where novel ones are NaN. They are of test
    images, each of which counts the same, unless the name says otherwise.
    """

    method: str  # with its options, as on the command line: "semantic:tau=3"
    memory: bool
    class_counts: tuple[int, ...]  # classes seen after each session, from session 0
    accuracy: FloatArray  # (draws, sessions + 1): all test images of the classes seen so far
    class_mean: FloatArray  # (draws, sessions + 1): mean of the accuracies of these classes
    base: FloatArray  # (draws, sessions + 1): those of base classes
    novel: FloatArray  # (draws, sessions + 1): those of the novel classes seen so far
    novel_session_mean: FloatArray  # (draws, sessions + 1): mean over sessions of their classes' accuracy
    steps: FloatArray  # (draws, sessions); 0 for training-free methods
    seconds: float
    protocol: str  # hash of the protocol
    splits: NDArray[np.int64]  # (draws,): which feature file each draw belongs to
    novel_at_birth: FloatArray  # (draws, sessions): accuracy on a session's classes right after they were learned
    novel_at_end: FloatArray  # (draws, sessions): accuracy on the same classes after the last session
    forgotten: FloatArray | None = None  # (draws, sessions + 1): see `forgetting`
    confusion: NDArray[np.int64] | None = None  # (sessions + 1, C, C) counts [true, predicted] of all draws of one file
    weight_space: WeightSpace | None = None
    final_rows: FloatArray | None = None  # (draws, C, d)
    predictions: tuple[NDArray[np.int64], ...] | None = None  # per session (draws, test items of the classes seen)
    query_labels: NDArray[np.int64] | None = None  # (test items,): base first, then novel in class order
    notes: tuple[str, ...] = field(default=())

    @property
    def label(self) -> str:
        """The method with what must stand beside its name in every table."""
        return self.method + " (transductive)" * (TRANSDUCTIVE in self.notes)

    @property
    def weighted(self) -> FloatArray:
        """The paper's accuracy (draws, sessions + 1): base and novel by numbers of classes, novel as in its code."""
        return metrics.class_weighted_accuracy(*self._by_classes)

    @property
    def harmonic(self) -> FloatArray:
        """The paper's harmonic mean (draws, sessions + 1), by numbers of classes."""
        return metrics.class_weighted_harmonic_mean(*self._by_classes)

    @property
    def plain_harmonic(self) -> FloatArray:
        """The usual harmonic mean (draws, sessions + 1) of base and novel accuracy."""
        return metrics.plain_harmonic_mean(self.base, self.novel)

    @property
    def average(self) -> FloatArray:
        """Mean weighted accuracy (draws, sessions + 1) of the sessions up to each."""
        return np.cumsum(self.weighted, axis=1) / np.arange(1, 1 + self.weighted.shape[1])

    @property
    def drop(self) -> FloatArray:
        """Weighted accuracy of session 0 less that of each session (draws, sessions + 1)."""
        return self.weighted[:, :1] - self.weighted

    @property
    def forgetting(self) -> FloatArray:
        """Mean loss up to each session (draws, sessions + 1) of the earlier ones' classes since they were learned.

        Base classes are those of session 0. Results of other programs that do not say tell the last session's only.
        """
        if self.forgotten is not None:
            return self.forgotten
        pairs = ((self.base[:, :1], self.novel_at_birth), (self.base[:, -1:], self.novel_at_end))
        last = metrics.forgetting_since_birth(*(np.concatenate(pair, axis=1) for pair in pairs))
        return np.where(np.arange(self.base.shape[1]) == self.base.shape[1] - 1, last[:, None], np.nan)

    @property
    def generalized(self) -> FloatArray:
        """gAcc (draws, sessions + 1) of the sessions up to each; at session 0 the base accuracy."""
        base, novel, count, novel_counts = self._by_classes
        ends = range(2, 1 + base.shape[1])
        later = (metrics.generalized_accuracy(base[:, :n], novel[:, :n], count, novel_counts[:n]) for n in ends)
        return np.stack([base[:, 0], *later], axis=1)

    @property
    def steps_in_all(self) -> FloatArray:
        """Optimiser steps (draws,) of all sessions."""
        return self.steps.sum(axis=1)

    @property
    def _by_classes(self) -> tuple[FloatArray, FloatArray, int, NDArray[np.int64]]:
        """Base and novel accuracy as the paper weighs them, and their numbers of classes."""
        base_count = self.class_counts[0]
        return self.base, self.novel_session_mean, base_count, np.asarray(self.class_counts) - base_count

    def samples(self, values: FloatArray) -> FloatArray:
        """What an interval or a test may count as one sample: ``values (draws, ...)``, or means of splits.

        Draws on one split share its classes and its network, so with several splits only the splits are independent.
        """
        several = len(np.unique(self.splits)) > 1
        return metrics.group_means(values, self.splits) if several else np.asarray(values, dtype=np.float64)

    def mean_and_half_width(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and half of the 95 % interval over the samples of ``values (draws, ...)``, both ``(...)``."""
        samples = self.samples(values)
        return samples.mean(axis=0), metrics.interval_half_width(samples)

    @classmethod
    def joined(cls, parts: Sequence["MethodResult"]) -> "MethodResult":
        """The results of one method on several files as one, with the draws of all and the number of each draw's file.

        What shows single classes, whose like there is not in every file, is of the first: confusion and weight space.
        """
        first, predictions = parts[0], None
        if len(parts) == 1:
            return first
        if first.predictions is not None:
            if any(not np.array_equal(np.asarray(part.query_labels), np.asarray(first.query_labels)) for part in parts):
                raise ValueError("predictions of several files need the same number of test items of each class in all")
            predictions = tuple(
                np.concatenate(p) for p in zip(*(part.predictions or () for part in parts), strict=True)
            )
        splits = np.concatenate([np.full(len(part.base), number) for number, part in enumerate(parts)])
        return replace(first, **_joined(parts, BY_DRAW), splits=splits, final_rows=None, predictions=predictions)


@dataclass(frozen=True)
class EpisodeResult:
    """One method over the episodes of the single-session protocol. Accuracies are in percent, one per episode (E,)."""

    method: str  # with its options, as on the command line
    shots: int
    base: FloatArray  # base queries among all classes
    novel: FloatArray  # novel queries among all classes
    base_alone: FloatArray  # base queries among base classes only
    novel_alone: FloatArray  # novel queries among the episode's novel classes only
    steps: FloatArray  # 0 for training-free methods
    seconds: float
    protocol: str  # hash of the protocol
    weight_space: WeightSpace | None = None  # of the first episode
    notes: tuple[str, ...] = field(default=())

    @property
    def joint(self) -> FloatArray:
        """Joint accuracy (E,): both halves count the same."""
        return (self.base + self.novel) / 2

    @property
    def delta(self) -> FloatArray:
        """Delta (E,) of Ren et al.: what both halves lose when all classes compete."""
        return metrics.joint_gap(self.base, self.novel, self.base_alone, self.novel_alone)

    @classmethod
    def joined(cls, parts: Sequence["EpisodeResult"]) -> "EpisodeResult":
        """The parts of one run, in their order, as one."""
        return replace(parts[0], **_joined(parts, BY_EPISODE))


def _joined(parts: Sequence[MethodResult] | Sequence[EpisodeResult], arrays: Sequence[str]) -> dict[str, Any]:
    """These arrays end to end, all seconds, and what any part had to say, once."""
    return {
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in arrays
            if all(getattr(part, name) is not None for part in parts)
        },
        "seconds": sum(part.seconds for part in parts),
        "notes": tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    }
