"""The result of a method under each protocol, with its figures of merit by name."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from subspan.arrays import FloatArray
from subspan.experiments import metrics
from subspan.experiments.records import Predictions, RecordError, Result
from subspan.files.atomic import replacing

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class MethodResult(Result):
    """One method under one memory setting, over all draws (support draws, or splits times orders times draws).

    Arrays are indexed (draw, session) from session 0, where novel accuracies are NaN. They are of test images, each of
    which counts the same, unless the name says otherwise.
    """

    figures = ("steps", "accuracy", "class_mean", "base", "novel", "novel_session_mean", "weighted", "harmonic")
    figures += ("plain_harmonic", "average", "drop", "forgetting", "generalized")
    also = ("class_counts",)
    setting = ("memory", "memory")

    memory: bool
    class_counts: tuple[int, ...]  # classes seen after each session, from session 0
    accuracy: FloatArray  # all test images of the classes seen so far
    class_mean: FloatArray  # mean of the accuracies of these classes
    novel: FloatArray  # those of the novel classes seen so far
    novel_session_mean: FloatArray  # mean over sessions of their classes' accuracy
    forgetting: FloatArray  # mean loss of the earlier sessions' classes since they were learned; NaN at session 0
    splits: NDArray[np.int64]  # (draws,): which feature file each draw belongs to
    orders: NDArray[np.int64] | None = None  # (draws,): which order of the classes; None: one
    confusion: NDArray[np.int64] | None = None  # (sessions + 1, C, C) counts [true, predicted] of all draws of one file
    final_rows: FloatArray | None = None  # (draws, C, d)
    predictions: tuple[Predictions, ...] | None = None  # of each file, and of each order in it

    @property
    def weighted(self) -> FloatArray:
        """The paper's accuracy: base and novel by numbers of classes, novel as in its code."""
        return metrics.class_weighted_accuracy(*self._by_classes)

    @property
    def harmonic(self) -> FloatArray:
        """The paper's harmonic mean, by numbers of classes."""
        return metrics.class_weighted_harmonic_mean(*self._by_classes)

    @property
    def plain_harmonic(self) -> FloatArray:
        """The usual harmonic mean of base and novel accuracy."""
        return metrics.plain_harmonic_mean(self.base, self.novel)

    @property
    def average(self) -> FloatArray:
        """Mean weighted accuracy of the sessions up to each."""
        return np.cumsum(self.weighted, axis=1) / np.arange(1, 1 + self.weighted.shape[1])

    @property
    def drop(self) -> FloatArray:
        """Weighted accuracy of session 0 less that of each session."""
        return self.weighted[:, :1] - self.weighted

    @property
    def generalized(self) -> FloatArray:
        """gAcc of the sessions up to each; at session 0 the base accuracy."""
        base, novel, count, novel_counts = self._by_classes
        ends = range(2, 1 + base.shape[1])
        later = (metrics.generalized_accuracy(base[:, :n], novel[:, :n], count, novel_counts[:n]) for n in ends)
        return np.stack([base[:, 0], *later], axis=1)

    @property
    def steps_in_all(self) -> FloatArray:
        """Optimiser steps of all sessions."""
        return self.steps.sum(axis=1)

    @property
    def _by_classes(self) -> tuple[FloatArray, FloatArray, int, NDArray[np.int64]]:
        """Base and novel accuracy as the paper weighs them, and their numbers of classes."""
        base_count = self.class_counts[0]
        return self.base, self.novel_session_mean, base_count, np.asarray(self.class_counts) - base_count

    @property
    def index(self) -> dict[str, NDArray[np.int64]]:
        orders = np.zeros_like(self.splits) if self.orders is None else self.orders
        places = np.stack([self.splits, orders], axis=1)
        earlier = [int((places[:i] == place).all(axis=1).sum()) for i, place in enumerate(places)]
        return {"split": self.splits, "order": orders, "draw": np.array(earlier, dtype=np.int64)}

    def samples(self, values: ArrayLike) -> FloatArray:
        """``values (draws, ...)``, or means of splits, or of orders.

        Draws on one split share its classes and its network, so with several splits only the splits are independent;
        with several orders of one split, the orders.
        """
        for groups in (self.splits, self.orders):
            if groups is not None and len(np.unique(groups)) > 1:
                return metrics.group_means(values, groups)
        return super().samples(values)

    @classmethod
    def joined(cls, parts: Sequence["MethodResult"], by: Literal["splits", "orders"] = "splits") -> "MethodResult":
        """The results of one method on several files, or in several orders, as one: the draws of all, and their part.

        What shows single classes, whose like there is not in every part, is of the first: confusion and weight space.
        """
        first = parts[0]
        if len(parts) == 1:
            return first
        arrays = _joined(parts)
        numbers = {by: np.repeat(np.arange(len(parts)), [len(part.base) for part in parts])}
        told = None if first.predictions is None else tuple(one for part in parts for one in part.predictions or ())
        return replace(first, **{**arrays, **numbers}, final_rows=None, predictions=told)

    def predictions_frame(self) -> "pd.DataFrame":
        """One row for each test item, draw and session: what it is and what it was taken for, by number and name."""
        import pandas as pd

        frames = []
        several = 1 if self.orders is None else len(np.unique(self.orders))
        for number, part in enumerate(self.predictions or ()):
            names = np.array(part.names)
            for session, predicted in enumerate(part.by_session):
                items = np.flatnonzero(part.labels < self.class_counts[session])
                true, found = np.tile(part.labels[items], len(predicted)), predicted.reshape(-1)
                columns = {
                    "method": self.method,
                    "memory": self.memory,
                    "split": number // several,
                    "order": number % several,
                    "draw": np.repeat(np.arange(len(predicted)), len(items)),
                    "session": session,
                    "item": np.tile(items, len(predicted)),
                    "true": true,
                    "predicted": found,
                    "true_name": names[true],
                    "predicted_name": names[found],
                }
                frames.append(pd.DataFrame(columns))
        return pd.concat(frames)


@dataclass(frozen=True, kw_only=True)
class EpisodeResult(Result):
    """One method over the episodes of the single-session protocol: one number for each episode (E,)."""

    figures = ("steps", "joint", "base", "novel", "base_alone", "novel_alone", "delta")
    setting = ("shots", "shots")
    distribution = "normal"

    shots: int
    novel: FloatArray  # novel queries among all classes; base: base queries among all classes
    base_alone: FloatArray  # base queries among base classes only
    novel_alone: FloatArray  # novel queries among the episode's novel classes only

    @property
    def joint(self) -> FloatArray:
        """Joint accuracy: both halves count the same."""
        return (self.base + self.novel) / 2

    @property
    def delta(self) -> FloatArray:
        """Delta of Ren et al.: what both halves lose when all classes compete."""
        return metrics.joint_gap(self.base, self.novel, self.base_alone, self.novel_alone)

    @classmethod
    def joined(cls, parts: Sequence["EpisodeResult"]) -> "EpisodeResult":
        """The parts of one run, in their order, as one."""
        return replace(parts[0], **_joined(parts))


def _joined(parts: Sequence[Result]) -> dict[str, Any]:
    """Arrays with a row for each draw end to end, all seconds, and what any part had to say, once."""
    first = parts[0]
    names = [one.name for one in fields(first) if one.name in (*first.figures, "splits", "orders")]
    found = {name: [getattr(part, name) for part in parts] for name in names}
    return {
        **{name: np.concatenate(each) for name, each in found.items() if each[0] is not None},
        "seconds": sum(part.seconds for part in parts),
        "notes": tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    }


def write_records(path: Path, results: Sequence[Result]) -> None:
    """A list of records as JSON, in one step."""
    with replacing(path) as file:
        file.write_text(json.dumps([one.to_record() for one in results], indent=1) + "\n", "utf-8")


def read_records(path: Path) -> list[Result]:
    """The results that a list of records tells of."""
    try:
        records = json.loads(path.read_text("utf-8"))
        kinds = [EpisodeResult if "shots" in record else MethodResult for record in records]
        return [kind.from_record(record) for kind, record in zip(kinds, records, strict=True)]
    except (UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"'{path}' is no list of records, as `subspan bench --json` writes it: {error!r}") from error
