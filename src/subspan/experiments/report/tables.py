"""The one table model of every report, and the table of a benchmark made from its results.

A table knows numbers and names only; ``render`` turns it into console, markdown, csv, LaTeX and HTML.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from subspan.arrays import FloatArray
from subspan.experiments.metrics import paired_tests
from subspan.experiments.report.summary import Summary, independent_samples, mean_and_half_width, summarize
from subspan.experiments.results import MethodResult

IMAGES = "Accuracy (%) on all test images of the classes seen, after each session"
SESSIONS = "Weighted accuracy (%), the paper's: base and novel by numbers of classes, after each session"
LAST = "Accuracy (%) after the last session"
TOTALS = "Over all sessions"


@dataclass(frozen=True)
class Column:
    """One column of numbers."""

    key: str  # its name in csv files
    title: str
    meaning: str  # one phrase, for legends and tool tips
    group: str = ""  # neighbouring columns of one group form one printed table
    decimals: int = 2


@dataclass(frozen=True)
class Cell:
    """One number; NaN where there is none."""

    value: float = np.nan
    half_width: float = np.nan  # of the 95 % interval
    top: bool = False  # the best of its column, or not significantly worse
    mark: str = ""  # a sign after the number; a note of the table says what it means


@dataclass(frozen=True)
class Row:
    """One line: what it is about, its numbers, and the block of lines it belongs to."""

    headings: tuple[str, ...]
    cells: tuple[Cell, ...]
    block: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of ``headings`` and one cell per column."""

    headings: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    notes: tuple[str, ...] = field(default=())

    def column_groups(self) -> Iterator[tuple[str, list[int]]]:
        """Name and column numbers of each group."""
        for name, members in groupby(range(len(self.columns)), key=lambda number: self.columns[number].group):
            yield name, list(members)

    def row_blocks(self) -> Iterator[tuple[str, list[Row]]]:
        """Name and rows of each block."""
        for name, members in groupby(self.rows, key=lambda row: row.block):
            yield name, list(members)


@dataclass(frozen=True)
class Measure:
    """A column, where its samples come from, and which way is better: 1 up, -1 down, 0 neither."""

    column: Column
    samples: Callable[[MethodResult, Summary], FloatArray]  # (draws,)
    better: int = 1


TOTAL_MEASURES = (
    Measure(Column("images", "images", "all test images", LAST), lambda r, s: r.accuracy[:, -1]),
    Measure(Column("class_mean", "classes", "mean over all classes", LAST), lambda r, s: r.class_mean[:, -1]),
    Measure(
        Column("weighted", "weighted", "the paper's mean of base and novel, by numbers of classes", LAST),
        lambda r, s: s.weighted[:, -1],
    ),
    Measure(Column("base", "base", "test images of base classes", LAST), lambda r, s: r.base[:, -1]),
    Measure(Column("novel", "novel", "test images of novel classes", LAST), lambda r, s: r.novel[:, -1]),
    Measure(
        Column("harmonic", "H(class)", "the paper's harmonic mean of base and novel, by numbers of classes", LAST),
        lambda r, s: s.harmonic[:, -1],
    ),
    Measure(
        Column("plain_harmonic", "H", "harmonic mean of base and novel, unweighted", LAST),
        lambda r, s: s.plain_harmonic[:, -1],
    ),
    Measure(Column("average", "average", "mean weighted accuracy over all sessions", TOTALS), lambda r, s: s.average),
    Measure(
        Column("drop", "drop", "weighted accuracy of the first minus that of the last session", TOTALS),
        lambda r, s: s.drop,
        better=-1,
    ),
    Measure(
        Column("forgetting", "forget", "mean loss of a session's classes since they were learned", TOTALS),
        lambda r, s: s.forgetting,
        better=-1,
    ),
    Measure(
        Column("gacc", "gAcc", "accuracy averaged over the weight of base classes", TOTALS),
        lambda r, s: s.generalized,
    ),
    Measure(
        Column("steps", "steps", "optimiser steps in all sessions, mean over draws", TOTALS, 0),
        lambda r, s: s.steps,
        better=0,
    ),
    Measure(
        Column("seconds", "sec", "for all draws and sessions", TOTALS, 2),
        lambda r, s: np.full(len(r.base), r.seconds),
        better=0,
    ),
)


def results_table(results: Sequence[MethodResult], title: str = "") -> Table:
    """One row per result, without memory first: accuracies of each session, then what the sessions add up to.

    Within each memory setting every column marks the best method and those not significantly different from it (paired
    t-test over draws, or over splits when there are several; p < 0.05 after Bonferroni correction).
    """
    ordered = sorted(results, key=lambda result: result.memory)
    sessions = max((result.base.shape[1] for result in ordered), default=0)
    measures = [
        *(image_measure(session) for session in range(sessions)),
        *(session_measure(session) for session in range(sessions)),
        *TOTAL_MEASURES,
    ]
    rows = []
    for memory, members in groupby(ordered, key=lambda result: result.memory):
        group = list(members)
        summaries = [summarize(result) for result in group]
        columns = [_column_cells(measure, group, summaries) for measure in measures]
        block = "with memory" if memory else "without memory"
        for number, result in enumerate(group):
            cells = tuple(column[number] for column in columns)
            rows.append(Row((result.method, "yes" if memory else "no"), cells, block))
    return Table(
        headings=("method", "memory"),
        columns=tuple(measure.column for measure in measures),
        rows=tuple(rows),
        title=title,
        notes=_notes(ordered),
    )


def image_measure(session: int) -> Measure:
    """Accuracy on all test images after one session; NaN for results that have fewer."""
    meaning = f"accuracy on all test images of the classes seen after session {session}"
    column = Column(f"images_{session}", str(session), meaning, IMAGES)
    return Measure(column, lambda result, _: _after(session, result.accuracy))


def session_measure(session: int) -> Measure:
    """The paper's weighted accuracy after one session; NaN for results that have fewer."""
    column = Column(f"session_{session}", str(session), f"weighted accuracy after session {session}", SESSIONS)
    return Measure(column, lambda _, summary: _after(session, summary.weighted))


def _after(session: int, values: FloatArray) -> FloatArray:
    """Of ``values (draws, sessions + 1)`` those after one session."""
    return values[:, session] if session < values.shape[1] else np.full(len(values), np.nan)


def _column_cells(measure: Measure, results: list[MethodResult], summaries: list[Summary]) -> list[Cell]:
    """One column of one memory setting: a cell per result."""
    values = [measure.samples(result, summary) for result, summary in zip(results, summaries, strict=True)]
    top = _top(measure.better, results, values)
    cells = []
    for result, value, marked in zip(results, values, top, strict=True):
        mean, half_width = mean_and_half_width(result, value)
        cells.append(Cell(float(mean), float(half_width) if measure.better else np.nan, marked))
    return cells


def _top(better: int, results: list[MethodResult], values: list[FloatArray]) -> list[bool]:
    """Which results are best or not significantly worse; none where the draws do not pair or say nothing."""
    pairs = all(np.array_equal(result.splits, results[0].splits) for result in results)
    if not (better and pairs):
        return [False] * len(results)
    return not_below_best([better * independent_samples(r, v) for r, v in zip(results, values, strict=True)])


def not_below_best(samples: Sequence[FloatArray]) -> list[bool]:
    """Which of several paired samples (n,) have the highest mean or are not significantly below it.

    Paired t-tests, p < 0.05 after Bonferroni correction. None where nothing can be tested: one method, one sample, or
    methods that are the same number apart in all samples.
    """
    if not all(np.isfinite(sample).all() for sample in samples):
        return [False] * len(samples)
    tests = paired_tests({str(i): sample for i, sample in enumerate(samples)}).values()
    tested = any(np.isfinite(test.p_value) for test in tests if not test.best)
    return [tested and test.not_below for test in tests]


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
    if any(draws > 1 for draws, _ in counts) and len(results) > 1:
        notes.append(
            "Bold: the best of its column and memory setting, or not significantly different from it "
            "(paired t-test, p < 0.05 after Bonferroni correction)."
        )
    common = set.intersection(*(set(result.notes) for result in results)) if len(results) > 1 else set()
    notes += sorted(common)
    for result in results:
        name = f"{result.method} ({'with' if result.memory else 'without'} memory)"
        notes.extend(f"{name}: {note}" for note in result.notes if note not in common)
    return tuple(notes)
