"""One method or system of a table: its result, and what it cost beyond its base session."""

from collections.abc import Sequence
from dataclasses import dataclass
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
    row: str = OURS  # what tables call it

    @property
    def splits(self) -> int:
        """How many feature files stand behind it."""
        return len(np.unique(self.result.splits)) if isinstance(self.result, MethodResult) else 1

    @property
    def seconds(self) -> float:
        """Of all sessions of one split, or of all episodes, scoring included."""
        return self.result.seconds / self.splits


def cost_of_parts(parts: Sequence[TrainedPart | None]) -> dict[str, Any]:
    """Minutes and place of trained parts, one for each split: the mean; nothing for a method without one."""
    seconds = [0.0 if part is None else float(part.about.get("seconds", 0.0)) for part in parts]
    said = {f"{part.source} features on {part.about.get('device', 'an unknown device')}" for part in parts if part}
    return {"minutes": sum(seconds) / len(seconds) / 60, "place": " and ".join(sorted(said))}


def cost_of_stored(results: Sequence[StoredResult]) -> dict[str, Any]:
    """Minutes and place of stored results, one for each split: the mean."""
    devices = sorted({str(one.about.get("device", "an unknown device")) for one in results})
    return {
        "minutes": sum(one.minutes for one in results) / len(results),
        "place": f"real images on {' and '.join(devices)}",
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
