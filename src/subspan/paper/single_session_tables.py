"""The paper's single-session table, made anew: published beside ours, what ours cost and what they were run with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from subspan.arrays import FloatArray
from subspan.experiments.config import Setting
from subspan.experiments.metrics import interval_half_width
from subspan.experiments.report.html import ReportTable
from subspan.experiments.report.tables import Cell, Column, Row, Table, not_below_best
from subspan.experiments.results import EpisodeResult
from subspan.learners.registry import spec_of
from subspan.paper.costs import TrainingCost, cost_cells, cost_columns
from subspan.paper.multi_session_tables import OURS, PUBLISHED, QUOTED, STORED
from subspan.paper.published import Published, PublishedCell, PublishedEpisodes

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
DELTA_CAVEAT = (
    "Delta: mean over base and novel queries of their accuracy among all classes minus their accuracy among the half's "
    "own classes. A model that is always wrong has the best Delta, 0: read it beside the accuracy only."
)


@dataclass(frozen=True)
class EpisodeRun:
    """One method or system with one number of shots."""

    setting: Setting
    result: EpisodeResult
    training: TrainingCost = field(default_factory=TrainingCost)  # of its own part
    stored: bool = False  # read from a file, not run now

    @property
    def row(self) -> str:
        """What tables call its row."""
        return STORED if self.stored else OURS


@dataclass(frozen=True)
class _Measure:
    key: str
    title: str
    meaning: str
    samples: Callable[[EpisodeResult], FloatArray]
    tested: bool = True  # a higher mean is better, and a paired test marks what is not below the best


MEASURES = (
    _Measure("accuracy", "acc.", "joint accuracy: base and novel queries among all classes", lambda r: r.joint),
    _Measure("delta", "Delta", "what both halves lose when all classes compete", lambda r: r.delta, tested=False),
    _Measure("base", "base", "base queries among all classes", lambda r: r.base),
    _Measure("novel", "novel", "novel queries among all classes", lambda r: r.novel),
    _Measure("base_alone", "base only", "base queries among base classes only", lambda r: r.base_alone),
    _Measure("novel_alone", "novel only", "novel queries among novel classes only", lambda r: r.novel_alone),
    _Measure("steps", "steps", "optimiser steps of an episode", lambda r: r.steps, tested=False),
)


def episodes_table(
    data: str,
    runs: Sequence[EpisodeRun],
    published: Published,
    notes: Sequence[str] = (),
) -> ReportTable:
    """One half of the table: quoted systems, then published and ours for each method, 1-shot and 5-shot.

    Stored results were not run now, on the same episodes; they take part in the tests and say so.
    """
    shots = _shots(runs)
    columns = tuple(
        Column(
            f"{measure.key}_{number}_shot",
            measure.title,
            f"{measure.meaning}, {number}-shot",
            f"{number}-shot",
            decimals=0 if measure.key == "steps" else 2,
        )
        for number in shots
        for measure in MEASURES
    )
    labels = {run.setting.name: run.row for run in runs}
    theirs = {line.model: line for line in published.single_session}
    rows = [
        Row((line.model, QUOTED), _published_cells(line, data, shots), QUOTED)
        for line in published.single_session
        if line.source != "P" and line.model not in labels
    ]
    ours = {number: _our_cells([run for run in runs if run.result.shots == number]) for number in shots}
    for name, label in labels.items():
        line = theirs.get(name)
        if line is not None:
            source = PUBLISHED if line.source == "P" else QUOTED
            rows.append(Row((name, source), _published_cells(line, data, shots), name))
        missing = (Cell(),) * len(MEASURES)
        rows.append(Row((name, label), tuple(c for number in shots for c in ours[number].get(name, missing)), name))
    counts = sorted({len(run.result.joint) for run in runs})
    heading = f"Single session, {DATA[data]}"
    sources = "; ".join(f"'{mark}': {published.sources[mark]}" for mark in ("P", "P, quoting"))
    said = dict.fromkeys(f"{run.setting.name}: {note}" for run in runs for note in run.result.notes)
    all_notes = (
        f"Mean over {', '.join(map(str, counts))} episodes with the normal 95 % interval. Bold, ours: the best of its "
        "column, or not significantly below it (paired t-test over the episodes, p < 0.05 after Bonferroni "
        "correction); published: as printed.",
        DELTA_CAVEAT,
        *notes,
        f"'{PUBLISHED}' and '{QUOTED}' are {sources}.",
        *said,
    )
    table = Table(("method", "row"), columns, tuple(rows), heading, all_notes)
    return ReportTable(f"single-session-{data}", heading, table)


def costs_table(data: str, runs: Sequence[EpisodeRun]) -> ReportTable:
    """What every row of ours cost beyond the base session, and where its part was trained.

    A system has one line; where its parts for some shots were trained elsewhere, those have a line of their own.
    """
    shots = _shots(runs)
    lines: dict[tuple[str, ...], dict[int, tuple[Cell, ...]]] = {}
    for run in runs:
        line = lines.setdefault((run.setting.name, run.row, run.training.place), {})
        line[run.result.shots] = cost_cells(run.training, run.result.seconds)
    columns = tuple(column for number in shots for column in cost_columns("all episodes", shots=number))
    missing = cost_cells(TrainingCost(np.nan), np.nan)
    rows = tuple(
        Row(headings, tuple(cell for number in shots for cell in cells.get(number, missing)))
        for headings, cells in lines.items()
    )
    heading = f"Cost, {DATA[data]}"
    notes = (
        "Beyond the base session, min: training of the system's own part, once, in minutes of the device named in its "
        "line; a part that serves every number of shots counts under each. sec: all episodes, scoring included, in "
        f"seconds of the device of this run, all processes together; '{STORED}': of the device named in its line.",
    )
    table = Table(("method", "row", "part trained on"), columns, rows, heading, notes)
    return ReportTable(f"single-session-{data}-costs", heading, table)


def settings_table(data: str, settings: Sequence[Setting], chosen_on: str) -> ReportTable:
    """What every learned method was run with: as published, or marked as chosen by us or left at its default."""
    said = {name for setting in settings for name in (*setting.given, *setting.chosen)}
    options = {**OPTIONS, **({STEPS: "steps"} if STEPS in said else {})}
    columns = tuple(Column(name, title, name, decimals=0 if name == STEPS else 5) for name, title in options.items())
    rows, untrained = [], []
    for setting in sorted(settings, key=lambda one: one.shots or 0):
        method = setting.create()
        if not hasattr(method, "learning_rate"):
            if setting.given or setting.chosen:
                untrained.append(f"{setting.name}, {setting.shots}-shot: run as {spec_of(method)}.")
            continue
        cells = tuple(_option_cell(setting, getattr(method, name, np.nan), name) for name in options)
        rows.append(Row((setting.name, f"{setting.shots}-shot", setting.embeddings or ""), cells, f"{setting.shots}"))
    heading = f"Settings, {DATA[data]}"
    if any(setting.given for setting in settings):
        origin = (
            f"Without a mark: given in the paper's appendix. {CHOSEN}: not given there, {chosen_on}. {DEFAULT}: not "
            "given there and left at the value of the multi-session experiments."
        )
    else:
        origin = (
            f"None is taken from the paper's appendix, whose values are for a linear head. {CHOSEN}: {chosen_on}. "
            f"{DEFAULT}: left at the value of the multi-session experiments."
        )
    notes = (
        origin,
        "beta holds the base rows. No code was released for this setting: R_old as a norm, uniform start of novel rows "
        "and five augmented copies of each support image are taken over from the multi-session code.",
        *untrained,
    )
    table = Table(("method", "shots", "embeddings"), columns, tuple(rows), heading, notes)
    return ReportTable(f"single-session-{data}-settings", heading, table)


def _shots(runs: Sequence[EpisodeRun]) -> list[int]:
    return sorted({run.result.shots for run in runs})


def _our_cells(runs: Sequence[EpisodeRun]) -> dict[str, tuple[Cell, ...]]:
    """The cells of each method among those with one number of shots."""
    by_measure = []
    for measure in MEASURES:
        samples = [measure.samples(run.result) for run in runs]
        top = not_below_best(samples) if measure.tested else [False] * len(samples)
        half_widths = [interval_half_width(values, distribution="normal") for values in samples]
        by_measure.append(
            [
                Cell(float(values.mean()), float(half) if measure.key != "steps" else np.nan, marked)
                for values, half, marked in zip(samples, half_widths, top, strict=True)
            ]
        )
    return {run.setting.name: cells for run, cells in zip(runs, zip(*by_measure, strict=True), strict=True)}


def _published_cells(line: PublishedEpisodes, data: str, shots: Sequence[int]) -> tuple[Cell, ...]:
    cells = []
    for number in shots:
        printed = line.cells.get((data, number))
        cells += [_printed(measure.key, printed) for measure in MEASURES]
    return tuple(cells)


def _printed(key: str, printed: PublishedCell | None) -> Cell:
    if printed is None or key not in ("accuracy", "delta"):
        return Cell()
    if key == "delta":
        return Cell(printed.delta)
    return Cell(printed.accuracy, printed.half_width, printed.bold)


def _option_cell(setting: Setting, value: float, name: str) -> Cell:
    if name == "gamma" and setting.method == "finetune":  # nothing pulls on its novel rows
        return Cell()
    mark = "" if name in setting.given else CHOSEN if name in setting.chosen else DEFAULT
    return Cell(float(value), mark=mark if np.isfinite(value) else "")
