"""Published systems side by side on one backbone: published rows, ours, what each costs, and a picture of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from matplotlib.figure import Figure

from subspan.experiments.report.figures import ReportFigure
from subspan.experiments.report.html import ReportTable
from subspan.experiments.report.labels import Label, draw_labels
from subspan.experiments.report.style import BLUE, VERMILION, new_figure, plain_axes, to_png
from subspan.experiments.report.summary import mean_and_half_width, summarize
from subspan.experiments.report.tables import Cell, Column, Row, Table
from subspan.experiments.results import MethodResult
from subspan.paper.costs import TrainingCost, cost_cells, cost_columns
from subspan.paper.multi_session_tables import (
    OURS,
    PUBLISHED,
    QUOTED,
    STORED,
    our_cells,
    published_cells,
    run_notes,
    session_measures,
    source_note,
)
from subspan.paper.published import Published, PublishedRow

BELOW = 3.0  # points below a published row of the same setting that ask for a cause
MARK = "‡"
COST = "Cost of one split, and how many there were"


@dataclass(frozen=True)
class SystemRun:
    """One system, or a method beside them, under one memory setting."""

    name: str
    result: MethodResult
    marks: str  # how far its description was checked; empty for a method of the paper or of ours
    training: TrainingCost = field(default_factory=TrainingCost)  # of its own part, for one split
    stored: bool = False  # read from a file, not run now

    @property
    def seconds(self) -> float:
        """For all sessions of one split, scoring included."""
        return self.result.seconds / self.splits

    @property
    def splits(self) -> int:
        return len(np.unique(self.result.splits))


def systems_table(runs: Sequence[SystemRun], published: Published, *, fixed: bool, recipe: str) -> ReportTable:
    """Every system, the published row of the same system above ours.

    On the fixed split a published row has the setting of ours, and so have the rows that the paper quotes beside its
    random splits; there a last session more than ``BELOW`` points below is marked.
    """
    measures = session_measures()
    costs = (
        *cost_columns("all sessions", COST),
        Column("splits", "splits", "splits that it could run on", COST, 0),
    )
    columns = (*(measure.column for measure in measures), *costs)
    last = max(number for number, column in enumerate(columns) if column.key.startswith("session_"))
    tables = [*([published.fixed_split] if fixed else []), published.without_memory, published.with_memory]
    theirs: dict[str, PublishedRow] = {}  # where several tables have a system, the last
    for row in (row for table in tables for row in table.rows):
        theirs |= dict.fromkeys(row.systems, row)
    rows = []
    for run in sorted(runs, key=lambda run: (run.result.memory, run.name)):
        memory, row = "+M" if run.result.memory else "-M", theirs.get(run.name)
        if row is not None and row.memory not in (None, run.result.memory):
            row = None
        if row is not None:
            label = PUBLISHED if fixed and row.memory is None else QUOTED  # only the paper's tables tell of memory
            cells = (*published_cells(row, measures), Cell(), Cell(), Cell())
            rows.append(Row((run.name, memory, label, row.source, ""), cells, run.name))
        ours = list(our_cells(run.result, measures))
        if fixed and row is not None and ours[last].value < row.accuracy[-1] - BELOW:
            ours[last] = replace(ours[last], mark=MARK)
        headings = (run.name, memory, STORED if run.stored else OURS, run.marks, run.training.place)
        rows.append(Row(headings, (*ours, *cost_cells(run.training, run.seconds), Cell(run.splits)), run.name))
    heading = f"Systems on {'the fixed split' if fixed else 'random splits'}, recipe {recipe}"
    setting = (
        f"{MARK}: the last session is more than {BELOW:g} points below the published row. Published rows have networks "
        f"of their own; '{QUOTED}': as the paper quotes it beside its random splits."
        if fixed
        else f"'{QUOTED}': as the paper quotes it, on the fixed split, with a network of its own: another setting."
    )
    notes = (
        setting,
        source_note(published, {row.source for row in theirs.values()}),
        *run_notes([run.result for run in runs if not run.marks]),
    )
    name = f"systems-{'fixed' if fixed else 'random'}-{recipe}"
    headings = ("system", "memory", "row", "marks", "part trained on")
    return ReportTable(name, heading, Table(headings, columns, tuple(rows), heading, notes))


def cost_picture(runs: Sequence[SystemRun]) -> ReportFigure:
    """Accuracy after the last session against what a system costs beyond the base session, without memory."""
    chosen = [run for run in runs if not run.result.memory]
    points = {run.name: (60 * run.training.minutes + run.seconds, _last(run.result)) for run in chosen}
    best = max(points, key=lambda name: points[name][1])
    told = "; ".join(f"{name} {accuracy:.1f} % in {seconds:.3g} s" for name, (seconds, accuracy) in points.items())
    return ReportFigure(
        name="systems-cost",
        title="Accuracy of systems against their cost",
        caption="Weighted accuracy after the last session without memory, against the seconds that a split costs "
        "beyond its base session: training of the system's own part (orange squares), all sessions and scoring. "
        f"Highest: {best}.",
        alt=f"Scatter plot of accuracy against cost. {told}.",
        png=to_png(_scatter(points, {run.name for run in chosen if run.training.minutes > 0})),
    )


def _last(result: MethodResult) -> float:
    return float(mean_and_half_width(result, summarize(result).weighted[:, -1])[0])


def _scatter(points: Mapping[str, tuple[float, float]], trained: set[str]) -> Figure:
    figure = new_figure(9, 5.5)
    axes = figure.add_subplot()
    plain_axes(axes)
    axes.set_xscale("log")
    for group, color, marker, meaning in (
        (False, BLUE, "o", "nothing trained beyond the rows"),
        (True, VERMILION, "s", "a part trained on the base classes"),
    ):
        at = np.array([place for name, place in points.items() if (name in trained) == group]).reshape(-1, 2)
        axes.scatter(*at.T, color=color, marker=marker, s=34, zorder=3, label=meaning)
    axes.set_xlabel("seconds for one split, beyond its base session", fontsize=11)
    axes.set_ylabel("accuracy after the last session (%)", fontsize=11)
    axes.margins(0.12)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)
    everything = np.array(list(points.values())).reshape(-1, 2)
    labels = [Label(name, np.array(place), "black", 9, 60) for name, place in points.items()]
    draw_labels(figure, axes, labels, everything, np.empty((0, 2, 2)))
    return figure
