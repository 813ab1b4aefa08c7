"""What a run costs beyond its base session: minutes of training a system's own part, seconds of all that follows."""

from collections.abc import Sequence
from dataclasses import dataclass

from subspan.experiments.report.tables import Cell, Column
from subspan.learners.parts.trained_part import TrainedPart
from subspan.paper.stored_results import StoredResult


@dataclass(frozen=True)
class TrainingCost:
    """What the own part of a system took; nothing for a method without one."""

    minutes: float = 0.0
    place: str = ""  # what it was trained with, and the device

    @classmethod
    def of_parts(cls, parts: Sequence[TrainedPart | None]) -> "TrainingCost":
        """The mean over trained parts, one for each split; None for a method without one."""
        seconds = [0.0 if part is None else float(part.about.get("seconds", 0.0)) for part in parts]
        said = {f"{part.source} features on {part.about.get('device', 'an unknown device')}" for part in parts if part}
        return cls(sum(seconds) / len(seconds) / 60, " and ".join(sorted(said)))

    @classmethod
    def of_stored(cls, results: Sequence[StoredResult]) -> "TrainingCost":
        """The mean over stored results, one for each split."""
        devices = sorted({str(one.about.get("device", "an unknown device")) for one in results})
        return cls(sum(one.minutes for one in results) / len(results), f"real images on {' and '.join(devices)}")


def cost_columns(spent_on: str, group: str = "", shots: int | None = None) -> tuple[Column, ...]:
    """Minutes of training and seconds ``spent_on`` what follows; of runs with this number of shots, where it counts."""
    key, title, among = ("", "", "") if shots is None else (f"_{shots}_shot", f"{shots}-shot ", f", {shots}-shot")
    return (
        Column(f"training_minutes{key}", f"{title}min", f"minutes of training the system's own part{among}", group, 1),
        Column(f"seconds{key}", f"{title}sec", f"seconds of {spent_on}, scoring included{among}", group, 2),
    )


def cost_cells(training: TrainingCost, seconds: float) -> tuple[Cell, ...]:
    """One run under :func:`cost_columns`."""
    return Cell(training.minutes), Cell(seconds)
