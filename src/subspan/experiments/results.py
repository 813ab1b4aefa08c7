"""What a protocol run leaves behind: one record per method and setting."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.experiments.metrics import class_weighted_accuracy, joint_gap

BY_DRAW = (  # the arrays of a MethodResult that have a row for each draw
    *("accuracy", "class_mean", "base", "novel", "novel_session_mean"),
    *("steps", "novel_at_birth", "novel_at_end"),
)


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
    confusion: NDArray[np.int64] | None = None  # (sessions + 1, C, C) counts [true, predicted] of all draws of one file
    weight_space: WeightSpace | None = None
    final_rows: FloatArray | None = None  # (draws, C, d)
    predictions: tuple[NDArray[np.int64], ...] | None = None  # per session (draws, test items of the classes seen)
    query_labels: NDArray[np.int64] | None = None  # (test items,): base first, then novel in class order
    notes: tuple[str, ...] = field(default=())

    @property
    def weighted(self) -> FloatArray:
        """The paper's accuracy (draws, sessions + 1): base and novel by numbers of classes, novel as in its code."""
        novel_counts = np.asarray(self.class_counts) - self.class_counts[0]
        return class_weighted_accuracy(self.base, self.novel_session_mean, self.class_counts[0], novel_counts)

    def of_splits(self, numbers: Sequence[int]) -> "MethodResult":
        """The accuracies of the draws on these feature files alone, with their share of the seconds."""
        chosen = np.isin(self.splits, numbers)
        seconds = self.seconds * len(np.unique(self.splits[chosen])) / len(np.unique(self.splits))
        kept = {name: getattr(self, name)[chosen] for name in (*BY_DRAW, "splits")}
        nothing = dict.fromkeys(("confusion", "weight_space", "final_rows", "predictions"))
        return replace(self, **kept, **nothing, seconds=seconds)


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
        return joint_gap(self.base, self.novel, self.base_alone, self.novel_alone)

    @classmethod
    def joined(cls, parts: Sequence["EpisodeResult"]) -> "EpisodeResult":
        """The parts of one run, in their order, as one."""
        arrays = ("base", "novel", "base_alone", "novel_alone", "steps")
        return replace(
            parts[0],
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays},
            seconds=sum(part.seconds for part in parts),
            notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        )
