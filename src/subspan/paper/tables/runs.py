"""One method or system of a table: its result, and what it cost beyond its base session."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from subspan.experiments.report.tables import Cell, Column
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.learners.training.trained_part import TrainedPart
from subspan.paper.published import OURS
from subspan.paper.stored_results import StoredResult

Result = TypeVar("Result", MethodResult, EpisodeResult)


@dataclass(frozen=True)
class Run(Generic[Result]):
    """A line of ours."""

    name: str  # of the method or system, as its table has it
    result: Result
    minutes: float = 0.0  # of training the system's own part, for one split
    place: str = ""  # what that was trained with, and the device
    files: tuple[Path, ...] = ()  # of what was trained, or of the stored results
    row: str = OURS  # what tables call it

    @property
    def splits(self) -> int:
        """How many feature files stand behind it."""
        return len(np.unique(self.result.splits)) if isinstance(self.result, MethodResult) else 1

    @property
    def seconds(self) -> float:
        """Of all sessions of one split, or of all episodes, scoring included."""
        return self.result.seconds / self.splits


def cost_of(made: Sequence[TrainedPart | StoredResult]) -> dict[str, Any]:
    """Minutes, place and files of what was trained for a run, one for each split: the mean; nothing without any."""
    minutes = [m.minutes if isinstance(m, StoredResult) else float(m.about.get("seconds", 0.0)) / 60 for m in made]
    sources = ["real images" if isinstance(m, StoredResult) else f"{m.source} features" for m in made]
    devices = [m.about.get("device", "an unknown device") for m in made]
    places = sorted({f"{source} on {device}" for source, device in zip(sources, devices, strict=True)})
    return {
        "minutes": sum(minutes) / max(len(made), 1),
        "place": " and ".join(places),
        "files": tuple(dict.fromkeys(Path(m.path) for m in made)),
    }


def cost_columns(spent_on: str, group: str = "", shots: int | None = None) -> tuple[Column, ...]:
    """Minutes of training and seconds ``spent_on`` what follows; of runs with this number of shots, where it counts."""
    key, title, among = ("", "", "") if shots is None else (f"_{shots}_shot", f"{shots}-shot ", f", {shots}-shot")
    return (
        Column(f"training_minutes{key}", f"{title}min", f"minutes of training the system's own part{among}", group, 1),
        Column(f"seconds{key}", f"{title}sec", f"seconds of {spent_on}, scoring included{among}", group, 2),
    )


def cost_cells(run: Run, shots: int | None = None) -> dict[str, Cell]:
    """One run under :func:`cost_columns`."""
    minutes, seconds = (column.key for column in cost_columns("", shots=shots))
    return {minutes: Cell(run.minutes), seconds: Cell(run.seconds)}
