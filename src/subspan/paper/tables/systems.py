"""Published systems side by side on one backbone: published rows, ours, what each costs, and a picture of both."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from subspan.experiments.report.drawings import BLUE, VERMILION, new_figure, plain_axes, to_files
from subspan.experiments.report.figures import ReportFigure
from subspan.experiments.report.labels import Label, draw_labels
from subspan.experiments.report.tables import Row, Table
from subspan.experiments.results import MethodResult
from subspan.paper.published import PUBLISHED, QUOTED, Published, PublishedRow
from subspan.paper.tables.multi_session import BOLD, COLUMNS, METHODS, all_cells, run_notes
from subspan.paper.tables.runs import Run, cost_cells, cost_columns

BELOW = 3.0  # points below a published row of the same setting that ask for a cause
MARK = "‡"
COST = "Cost of one split"


def systems_table(runs: Sequence[Run[MethodResult]], published: Published, *, fixed: bool, recipe: str) -> Table:
    """Every system, the published row of the same system above ours.

    On the fixed split a published row has the setting of ours, and so have the rows that the paper quotes beside its
    random splits; there a last session more than ``BELOW`` points below is marked.
    """
    tables = [*([published.fixed_split] if fixed else []), published.without_memory, published.with_memory]
    theirs: dict[str, PublishedRow] = {}  # where several tables have a system, the last
    for row in (row for table in tables for row in table):
        theirs |= dict.fromkeys(row.systems, row)
    rows = []
    ordered = sorted(runs, key=lambda run: (run.result.memory, run.name))
    for run, measured in zip(ordered, all_cells([run.result for run in ordered]), strict=True):
        memory, row = "+M" if run.result.memory else "-M", theirs.get(run.name)
        cells = measured | cost_cells(run)
        if row is not None and row.memory in (None, run.result.memory):
            label = PUBLISHED if fixed and row.memory is None else QUOTED  # only the paper's tables tell of memory
            rows.append(Row((run.name, memory, label, row.source, ""), row.cells, run.name))
            last = f"session_{row.sessions[-1]}"
            if fixed and cells[last].value < row.accuracy[-1] - BELOW:
                cells[last] = replace(cells[last], mark=MARK)
        rows.append(
            Row((run.name, memory, run.row, f"{run.splits} split{'s' * (run.splits > 1)}", run.place), cells, run.name)
        )
    where = "fixed" if fixed else "random"
    return Table(
        headings=("system", "memory", "row", "source or splits", "part trained on"),
        columns=(*COLUMNS, *cost_columns("all sessions", COST)),
        rows=tuple(rows),
        title=f"Systems on {'the fixed split' if fixed else 'random splits'}, recipe {recipe}",
        notes=(*([] if fixed else [BOLD]), *run_notes([run.result for run in runs if run.name in METHODS])),
        name=f"systems-{where}-{recipe}",
    )


def cost_picture(runs: Sequence[Run[MethodResult]]) -> ReportFigure:
    """Accuracy after the last session against what a system costs beyond the base session, without memory."""
    points: dict[str, tuple[float, float]] = {}
    trained = set()
    for run in (run for run in runs if not run.result.memory):
        accuracy, _ = run.result.mean_and_half_width(run.result.weighted[:, -1])
        points[run.name] = 60 * run.minutes + run.seconds, float(accuracy)
        trained |= {run.name} if run.minutes > 0 else set()
    figure = new_figure(9, 5.5)
    axes = figure.add_subplot()
    plain_axes(axes, "seconds for one split, beyond its base session", "accuracy after the last session (%)")
    axes.set_xscale("log")
    for group, color, marker, meaning in (
        (False, BLUE, "o", "nothing trained beyond the rows"),
        (True, VERMILION, "s", "a part trained on the base classes"),
    ):
        at = np.array([place for name, place in points.items() if (name in trained) == group]).reshape(-1, 2)
        axes.scatter(*at.T, color=color, marker=marker, s=34, zorder=3, label=meaning)
    axes.margins(0.12)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, frameon=False)
    labels = [Label(name, np.array(place), "black", 9, 60) for name, place in points.items()]
    draw_labels(figure, axes, labels, np.array(list(points.values())).reshape(-1, 2), np.empty((0, 2, 2)))
    told = "; ".join(f"{name} {accuracy:.1f} % in {seconds:.3g} s" for name, (seconds, accuracy) in points.items())
    return ReportFigure(
        name="systems-cost",
        title="Accuracy of systems against their cost",
        caption="Weighted accuracy after the last session without memory, against the seconds that a split costs "
        "beyond its base session: training of the system's own part (orange squares), all sessions and scoring. "
        f"Highest: {max(points, key=lambda name: points[name][1])}.",
        alt=f"Scatter plot of accuracy against cost. {told}.",
        files=to_files(figure),
    )
