"""The table of a benchmark: accuracies of each session, then what the sessions add up to."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from subspan.arrays import FloatArray
from subspan.experiments.report.tables import Cell, Column, Row, Table, bold_note, not_below_best
from subspan.experiments.results import MethodResult

IMAGES = "Accuracy (%) on all test images of the classes seen, after each session"
SESSIONS = "Weighted accuracy (%), the paper's: base and novel by numbers of classes, after each session"
LAST = "Accuracy (%) after the last session"
TOTALS = "Over all sessions"


@dataclass(frozen=True)
class Measure:
    """A column, the figure of a result that it shows, and which way is better: 1 up, -1 down, 0 neither."""

    column: Column
    figure: str  # its name in MethodResult
    better: int = 1
    session: int = -1  # of figures that have a number for each session

    def samples(self, result: MethodResult) -> FloatArray:
        """One number for each draw (draws,); NaN where a result has fewer sessions."""
        values = np.asarray(getattr(result, self.figure), dtype=np.float64)
        if values.ndim == 2:
            values = values[:, self.session] if self.session < values.shape[1] else np.array(np.nan)
        return np.broadcast_to(values, len(result.base))


_LAST = (  # key, title, figure of a result, which way is better, meaning
    ("images", "images", "accuracy", 1, "all test images"),
    ("class_mean", "classes", "class_mean", 1, "mean over all classes"),
    ("weighted", "weighted", "weighted", 1, "the paper's mean of base and novel, by numbers of classes"),
    ("base", "base", "base", 1, "test images of base classes"),
    ("novel", "novel", "novel", 1, "test images of novel classes"),
    ("harmonic", "H(class)", "harmonic", 1, "the paper's harmonic mean of base and novel, by numbers of classes"),
    ("plain_harmonic", "H", "plain_harmonic", 1, "harmonic mean of base and novel, unweighted"),
)
_TOTALS = (
    ("average", "average", "average", 1, "mean weighted accuracy over all sessions"),
    ("drop", "drop", "drop", -1, "weighted accuracy of the first minus that of the last session"),
    ("forgetting", "forget", "forgetting", -1, "mean loss of a session's classes since they were learned"),
    ("gacc", "gAcc", "generalized", 1, "accuracy averaged over the weight of base classes"),
    ("steps", "steps", "steps_in_all", 0, "optimiser steps in all sessions, mean over draws"),
    ("seconds", "sec", "seconds", 0, "for all draws and sessions"),
)
MEASURES = {
    key: Measure(Column(key, title, meaning, group, 0 if key == "steps" else 2), figure, better)
    for group, figures in ((LAST, _LAST), (TOTALS, _TOTALS))
    for key, title, figure, better, meaning in figures
}


def measures_of(sessions: int) -> list[Measure]:
    """All columns of a table over so many sessions, session 0 included."""
    by_session = [
        Measure(Column(f"{key}_{session}", str(session), f"{meaning} {session}", group), figure, session=session)
        for key, group, figure, meaning in (
            ("images", IMAGES, "accuracy", "accuracy on all test images of the classes seen after session"),
            ("session", SESSIONS, "weighted", "weighted accuracy after session"),
        )
        for session in range(sessions)
    ]
    return [*by_session, *MEASURES.values()]


def results_table(results: Sequence[MethodResult], title: str = "") -> Table:
    """One row per result, without memory first: accuracies of each session, then what the sessions add up to.

    Within each memory setting every column marks the best method and those not significantly different from it (paired
    t-test over draws, or over splits when there are several; p < 0.05 after Bonferroni correction).
    """
    ordered = sorted(results, key=lambda result: result.memory)
    measures = measures_of(max((result.base.shape[1] for result in ordered), default=0))
    rows: list[Row] = []
    for memory, members in groupby(ordered, key=lambda result: result.memory):
        group = list(members)
        cells = {measure.column.key: _cells(measure, group) for measure in measures}
        for number, result in enumerate(group):
            headings = (result.label, "yes" if memory else "no")
            rows.append(Row(headings, {key: column[number] for key, column in cells.items()}, headings[1]))
    columns = tuple(measure.column for measure in measures)
    return Table(("method", "memory"), columns, tuple(rows), title, _notes(ordered))


def cell_of(result: MethodResult, measure: Measure, *, top: bool = False) -> Cell:
    """What one result shows in a column."""
    mean, half_width = result.mean_and_half_width(measure.samples(result))
    return Cell(float(mean), float(half_width) if measure.better else np.nan, top)


def _cells(measure: Measure, results: Sequence[MethodResult]) -> list[Cell]:
    """One column of one memory setting; no mark where the draws do not pair or say nothing."""
    top = [False] * len(results)
    if measure.better and all(np.array_equal(result.splits, results[0].splits) for result in results):
        top = not_below_best([measure.better * result.samples(measure.samples(result)) for result in results])
    return [cell_of(result, measure, top=marked) for result, marked in zip(results, top, strict=True)]


def _notes(results: Sequence[MethodResult]) -> tuple[str, ...]:
    """How many samples stand behind the numbers, what a mark means, and what the runs had to say."""
    counts = {(len(result.base), len(np.unique(result.splits))) for result in results}
    notes = []
    for draws, splits in sorted(counts):
        if splits > 1:
            notes.append(f"Mean and 95 % interval (Student t) over {splits} splits, {draws} runs in all.")
        elif draws > 1:
            notes.append(f"Mean and 95 % interval (Student t) over {draws} support draws.")
        else:
            notes.append("One draw: no interval and no test.")
    most = max((splits if splits > 1 else draws for draws, splits in counts), default=1)
    notes += bold_note(most, "its column and memory setting") if len(results) > 1 else []
    common = set.intersection(*(set(result.notes) for result in results)) if len(results) > 1 else set()
    notes += sorted(common)
    for result in results:
        name = f"{result.method} ({'with' if result.memory else 'without'} memory)"
        notes.extend(f"{name}: {note}" for note in result.notes if note not in common)
    return tuple(notes)
