"""The paper's single-session table, made anew: published beside ours, what ours cost and what they were run with."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from subspan.experiments.config import Setting
from subspan.experiments.report.results_table import OF_EPISODES
from subspan.experiments.report.tables import Cell, Column, Row, Table
from subspan.experiments.results import EpisodeResult
from subspan.learners.registry import spec_of
from subspan.paper.published import OURS, PUBLISHED, QUOTED, Published
from subspan.paper.tables.runs import Run, cost_cells, cost_columns

DATA: Mapping[str, str] = {"mini": "miniImageNet", "tiered": "tieredImageNet"}
CHOSEN, DEFAULT = "†", "°"
OPTIONS: Mapping[str, str] = {
    "learning_rate": "rate",
    "weight_decay": "decay",
    "gamma": "gamma",
    "beta_base": "beta",
    "tau": "tau",
}
STEPS = "max_steps"  # a column of its own only where settings name it
MEASURES = tuple(measure for key, measure in OF_EPISODES.items() if key != "seconds")  # whose table is another


def episodes_table(
    data: str, runs: Sequence[Run[EpisodeResult]], published: Published, notes: Sequence[str] = ()
) -> Table:
    """One half of the table: quoted systems, then published and ours for each method, 1-shot and 5-shot.

    Stored results were not run now, on the same episodes; they take part in the tests and say so.
    """
    shots = _shots(runs)
    columns = tuple(_of_shots(measure.column, number) for number in shots for measure in MEASURES)
    ours: dict[str, dict[str, Cell]] = {run.name: {} for run in runs}
    for number, measure in itertools.product(shots, MEASURES):
        chosen = [run for run in runs if run.result.shots == number]
        for run, cell in zip(chosen, measure.cells([run.result for run in chosen]), strict=True):
            ours[run.name][_of_shots(measure.column, number).key] = cell
    theirs = {line.model: line for line in published.single_session}
    rows = [
        Row((name, QUOTED), line.cells[data], QUOTED)
        for name, line in theirs.items()
        if line.source != "P" and name not in ours
    ]
    for name, label in {run.name: run.row for run in runs}.items():
        if line := theirs.get(name):
            rows.append(Row((name, PUBLISHED if line.source == "P" else QUOTED), line.cells[data], name))
        rows.append(Row((name, label), ours[name], name))
    said = dict.fromkeys(f"{run.name}: {note}" for run in runs for note in run.result.notes)
    title, name = f"Single session, {DATA[data]}", f"single-session-{data}"
    return Table(("method", "row"), columns, tuple(rows), title, (*notes, *said), name=name)


def published_table(data: str, published: Published) -> Table:
    """One half of the table as published, with blanks where ours would be: for data whose images we do not have."""
    theirs, shots = published.single_session, (1, 5)
    columns = tuple(_of_shots(OF_EPISODES[key].column, number) for number in shots for key in ("accuracy", "delta"))
    labels = {line.model: PUBLISHED if line.source == "P" else QUOTED for line in theirs}
    rows = [
        row
        for line in theirs
        for row in (Row((line.model, labels[line.model]), line.cells[data], line.model), Row((line.model, OURS), {}))
    ]
    note = (
        f"Ours are blank: the images of {DATA[data]} cannot be had here. With them in a folder, `subspan train --split "
        f"{data} --recipe paper-{data} --data FOLDER --out RUN`, `subspan pack --run RUN --data FOLDER --out "
        f"benchmarks/features/paper-{data}.npz` and `subspan reproduce single-session --data {data}` fill them; a test "
        "takes this way on made-up images in the layout of Ren et al."
    )
    title = f"Single session, {DATA[data]}"
    return Table(("method", "row"), columns, tuple(rows), title, (note,), name=f"single-session-{data}")


def _of_shots(column: Column, number: int) -> Column:
    """A column for one number of shots."""
    key, group = f"{column.key}_{number}_shot", f"{number}-shot"
    return replace(column, key=key, meaning=f"{column.meaning}, {group}", group=group)


def costs_table(data: str, runs: Sequence[Run[EpisodeResult]]) -> Table:
    """What every row of ours cost beyond the base session, and where its part was trained.

    A system has one line; where its parts for some shots were trained elsewhere, those have a line of their own.
    """
    lines: dict[tuple[str, ...], dict[str, Cell]] = {}
    for run in runs:
        lines.setdefault((run.name, run.row, run.place), {}).update(cost_cells(run, run.result.shots))
    return Table(
        headings=("method", "row", "part trained on"),
        columns=tuple(column for number in _shots(runs) for column in cost_columns("all episodes", shots=number)),
        rows=tuple(Row(headings, cells) for headings, cells in lines.items()),
        title=f"Cost, {DATA[data]}",
        name=f"single-session-{data}-costs",
    )


def settings_table(data: str, settings: Sequence[Setting], chosen_on: str) -> Table:
    """What every learned method was run with: as published, or marked as chosen by us or left at its default."""
    said = {name for setting in settings for name in (*setting.given, *setting.chosen)}
    options = {**OPTIONS, **({STEPS: "steps"} if STEPS in said else {})}
    rows, untrained = [], []
    for setting in sorted(settings, key=lambda one: one.shots or 0):
        method = setting.create()
        if hasattr(method, "learning_rate"):
            cells = {name: _option_cell(setting, getattr(method, name, np.nan), name) for name in options}
            rows.append(
                Row((setting.name, f"{setting.shots}-shot", setting.embeddings or ""), cells, f"{setting.shots}")
            )
        elif setting.given or setting.chosen:
            untrained.append(f"{setting.name}, {setting.shots}-shot: run as {spec_of(method)}.")
    at_default = "left at the value of the multi-session experiments."
    if any(setting.given for setting in settings):
        origin = (
            f"Without a mark: given in the paper's appendix. {CHOSEN}: not given there, {chosen_on}. {DEFAULT}: not "
            f"given there and {at_default}"
        )
    else:
        origin = (
            f"None is taken from the paper's appendix, whose values are for a linear head. {CHOSEN}: {chosen_on}. "
            f"{DEFAULT}: {at_default}"
        )
    return Table(
        headings=("method", "shots", "embeddings"),
        columns=tuple(Column(key, title, key, decimals=0 if key == STEPS else 5) for key, title in options.items()),
        rows=tuple(rows),
        title=f"Settings, {DATA[data]}",
        notes=(origin, *untrained),
        name=f"single-session-{data}-settings",
    )


def _shots(runs: Sequence[Run[EpisodeResult]]) -> list[int]:
    return sorted({run.result.shots for run in runs})


def _option_cell(setting: Setting, value: float, name: str) -> Cell:
    if name == "gamma" and setting.method == "finetune":  # nothing pulls on its novel rows
        return Cell()
    mark = "" if name in setting.given else CHOSEN if name in setting.chosen else DEFAULT
    return Cell(float(value), mark=mark if np.isfinite(value) else "")
