"""The table of a benchmark: accuracies of each session, then what the sessions add up to; or those of episodes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from subspan.arrays import FloatArray
from subspan.experiments.metrics import group_means
from subspan.experiments.records import Result
from subspan.experiments.report.tables import Cell, Column, Row, Table, bold_note, not_below_best
from subspan.experiments.results import EpisodeResult, MethodResult

IMAGES = "Accuracy (%) on all test images of the classes seen, after each session"
SESSIONS = "Weighted accuracy (%), the paper's: base and novel by numbers of classes, after each session"
LAST = "Accuracy (%) after the last session"
TOTALS = "Over all sessions"
EPISODES = "Accuracy (%), mean over episodes"


@dataclass(frozen=True)
class Measure:
    """A column, the figure of a result that it shows, and which way is better: 1 up, -1 down, 0 neither."""

    column: Column
    figure: str  # its name in the result
    better: int | None = 1  # None: nor has it an interval
    session: int = -1  # of figures that have a number for each session

    def samples(self, result: Result) -> FloatArray:
        """One number for each draw (draws,); NaN where a result has fewer sessions."""
        values = np.asarray(getattr(result, self.figure), dtype=np.float64)
        if values.ndim == 2:
            values = values[:, self.session] if self.session < values.shape[1] else np.array(np.nan)
        return np.broadcast_to(values, len(result.base))

    def cell_of(self, result: Result, *, top: bool = False) -> Cell:
        """What one result shows in this column."""
        mean, half_width = result.mean_and_half_width(self.samples(result))
        return Cell(float(mean), np.nan if self.better is None else float(half_width), top)

    def cells(self, results: Sequence[Result]) -> list[Cell]:
        """The column of results of one setting; no mark where the draws do not pair or say nothing."""
        top = [False] * len(results)
        places = [np.stack(list(result.index.values())) for result in results]
        if self.better and all(np.array_equal(place, places[0]) for place in places):
            top = not_below_best([self.better * result.samples(self.samples(result)) for result in results])
        return [self.cell_of(result, top=marked) for result, marked in zip(results, top, strict=True)]


def _measures(group: str, *figures: tuple[str, str, str, int | None, str]) -> dict[str, Measure]:
    """Of key, title, figure of a result, which way is better, and meaning."""
    return {
        key: Measure(Column(key, title, meaning, group, 0 if key == "steps" else 2), figure, better)
        for key, title, figure, better, meaning in figures
    }


MEASURES = _measures(
    LAST,
    ("images", "images", "accuracy", 1, "all test images"),
    ("class_mean", "classes", "class_mean", 1, "mean over all classes"),
    ("weighted", "weighted", "weighted", 1, "the paper's mean of base and novel, by numbers of classes"),
    ("base", "base", "base", 1, "test images of base classes"),
    ("novel", "novel", "novel", 1, "test images of novel classes"),
    ("harmonic", "H(class)", "harmonic", 1, "the paper's harmonic mean of base and novel, by numbers of classes"),
    ("plain_harmonic", "H", "plain_harmonic", 1, "harmonic mean of base and novel, unweighted"),
) | _measures(
    TOTALS,
    ("average", "average", "average", 1, "mean weighted accuracy over all sessions"),
    ("drop", "drop", "drop", -1, "weighted accuracy of the first minus that of the last session"),
    ("forgetting", "forget", "forgetting", -1, "mean loss of a session's classes since they were learned"),
    ("gacc", "gAcc", "generalized", 1, "accuracy averaged over the weight of base classes"),
    ("steps", "steps", "steps_in_all", None, "optimiser steps in all sessions, mean over draws"),
    ("seconds", "sec", "seconds", None, "for all draws and sessions"),
)
OF_EPISODES = _measures(
    EPISODES,
    ("accuracy", "acc.", "joint", 1, "base and novel queries among all classes"),
    ("delta", "Delta", "delta", 0, "what both halves lose when all classes compete"),
    ("base", "base", "base", 1, "base queries among all classes"),
    ("novel", "novel", "novel", 1, "novel queries among all classes"),
    ("base_alone", "base only", "base_alone", 1, "base queries among base classes only"),
    ("novel_alone", "novel only", "novel_alone", 1, "novel queries among novel classes only"),
    ("steps", "steps", "steps", None, "optimiser steps of an episode"),
    ("seconds", "sec", "seconds", None, "for all episodes"),
)


def compared(result: Result) -> dict[str, Measure]:
    """The figures in which results are better or worse."""
    every = OF_EPISODES if isinstance(result, EpisodeResult) else MEASURES
    return {key: measure for key, measure in every.items() if measure.better}


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


def results_table(results: Sequence[Result], title: str = "") -> Table:
    """One row per result, by setting: accuracies of each session, then what the sessions add up to.

    Within each memory setting, or number of shots, every column marks the best method and those not significantly
    different from it (paired t-test over draws, or over splits when there are several; p < 0.05 after Bonferroni
    correction).
    """
    ordered = sorted(results, key=lambda result: getattr(result, result.setting[0]))
    if any(isinstance(result, EpisodeResult) for result in ordered):
        measures = list(OF_EPISODES.values())
    else:
        measures = measures_of(max((result.base.shape[1] for result in ordered), default=0))
    rows: list[Row] = []
    for block, members in groupby(ordered, key=lambda result: result.block):
        group = list(members)
        cells = {measure.column.key: measure.cells(group) for measure in measures}
        for number, result in enumerate(group):
            rows.append(Row((result.label, block), {key: column[number] for key, column in cells.items()}, block))
    columns = tuple(measure.column for measure in measures)
    heading = ordered[0].setting[1] if ordered else "memory"
    return Table(("method", heading), columns, tuple(rows), title, _notes(ordered))


def _notes(results: Sequence[Result]) -> tuple[str, ...]:
    """How many samples stand behind the numbers, what a mark means, and what the runs had to say."""
    counts = {_samples(result) for result in results}
    notes = []
    for samples, what, draws in sorted(counts):
        runs = f", {draws} runs in all" if what != "support draws" and draws > samples else ""
        if what == "episodes":
            notes.append(f"Mean and normal 95 % interval over {samples} episodes.")
        elif samples > 1:
            notes.append(f"Mean and 95 % interval (Student t) over {samples} {what}{runs}.")
        else:
            notes.append("One draw: no interval and no test.")
    most, setting = max((samples for samples, *_ in counts), default=1), results[0].setting[1] if results else ""
    what = "memory setting" if setting == "memory" else f"number of {setting}"
    notes += bold_note(most, f"its column and {what}") if len(results) > 1 else []
    common = set.intersection(*(set(result.notes) for result in results)) if len(results) > 1 else set()
    notes += sorted(common)
    for result in results:
        name = f"{result.method} ({result.where})"
        notes.extend(f"{name}: {note}" for note in result.notes if note not in common)
        if spread := _spread(result):
            notes.append(f"{name}: {spread}")
    return tuple(notes)


def _samples(result: Result) -> tuple[int, str, int]:
    """How many samples an interval has, what they are, and how many runs there were."""
    draws = len(result.base)
    if not isinstance(result, MethodResult):
        return draws, "episodes", draws
    for what, groups in (("splits", result.splits), ("orders of the classes", result.orders)):
        if groups is not None and (several := len(np.unique(groups))) > 1:
            return several, what, draws
    return draws, "support draws", draws


def _spread(result: Result) -> str:
    """How far the average accuracy of several orders of the classes lies apart."""
    if not isinstance(result, MethodResult) or result.orders is None or len(np.unique(result.orders)) < 2:
        return ""
    found = group_means(result.average[:, -1], result.orders)
    return (
        f"over {len(found)} orders of the classes, average accuracy from {found.min():.2f} to {found.max():.2f}, "
        f"standard deviation {found.std(ddof=1):.2f}."
    )
