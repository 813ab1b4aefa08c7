"""The paper's multi-session tables, made anew: published beside ours, and beside ours scaled to the paper's session 0.

Networks differ in what they reach before the first incremental session, and that rules everything after. So each of our
rows stands there twice: as measured, and times the ratio of session-0 accuracies (the paper's / ours). A scaled cell
further than ``FAR`` points from the published one is marked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from subspan.arrays import FloatArray
from subspan.experiments.metrics import average_accuracy, performance_drop
from subspan.experiments.report.html import ReportTable
from subspan.experiments.report.summary import mean_and_half_width, summarize
from subspan.experiments.report.tables import (
    SESSIONS,
    TOTAL_MEASURES,
    Cell,
    Column,
    Measure,
    Row,
    Table,
    session_measure,
)
from subspan.experiments.results import MethodResult
from subspan.paper.published import Published, PublishedRow, PublishedTable

FAR = 2.0  # points between the published and the scaled cell
MARK = "†"
PUBLISHED, QUOTED, OURS, SCALED = "published", "quoted", "ours", "ours, scaled"
STORED = "ours, stored"  # not run now: of a system that needs images
SPLITS = 10  # random splits behind the paper's means
SESSION_COUNT = 9  # session 0 included

METHODS: Mapping[str, str] = {
    "finetune": "Fine-tuning",
    "subspace": "Subspace",
    "linear_map": "Linear mapping",
    "semantic": "Semantic subspace",
    "imprint": "Imprinting",
    "prototype": "Prototypes",
}
BEYOND: Mapping[str, str] = {"calibrated": "Calibrated prototypes"}  # ours, in no table of the paper
ABLATION = (
    "semantic",
    "semantic:beta_base=0,beta_novel=0",
    "finetune",
    "finetune:beta_base=0,beta_novel=0",
)
_CHOSEN = "gamma=0.5,beta_base=0.8,beta_novel=1"
TUNED: Mapping[str, str] = {  # chosen by `subspan sweep` on the development split, which no table reports
    f"semantic:{_CHOSEN}": "Semantic subspace, options of split 0",
    f"linear_map:{_CHOSEN}": "Linear mapping, options of split 0",
}
_ALL_SESSIONS = {  # tables with every session that the paper printed: under which memory setting
    "sessions-without-memory": "-M",
    "sessions-with-memory": "+M",
    "without-old-penalty": "-M",
}
_GROUP = "After the last session, and over all sessions"
_TOTALS = ("base", "harmonic", "plain_harmonic", "average", "drop")
_NOVEL = Measure(
    Column("novel", "novel", "accuracy on novel classes, mean over sessions as in the paper's code"),
    lambda r, s: r.novel_session_mean[:, -1],
)


@dataclass(frozen=True)
class TrainedNetwork:
    """Session 0 of one feature file, in percent; NaN where the file does not say."""

    recipe: str
    seed: int
    validation: float = np.nan
    test: float = np.nan


@dataclass(frozen=True)
class _Line:
    """One number per column, with half widths where there are several splits."""

    mean: FloatArray
    half_width: FloatArray


def random_split_tables(
    results: Sequence[MethodResult], seeds: Sequence[int], published: Published, recipe: str = "paper"
) -> list[ReportTable]:
    """Over the random splits ``seeds``: main table, both appendix tables, ablation of R_old, variants tuned by us."""
    ratio = session0_ratio(results, published)
    notes = _notes(results, seeds, published, ratio, recipe)
    appendix = [
        ReportTable(
            f"sessions-{name}-memory",
            f"All sessions, {name} memory",
            _session_table(results, quoted, _methods(results), memory, ratio, notes, published),
        )
        for name, memory, quoted in (
            ("without", False, published.without_memory),
            ("with", True, published.with_memory),
        )
    ]
    ablation = _session_table(results, published.old_penalty, list(ABLATION), False, ratio, notes, published)
    theirs = published.without_memory
    unquoted = replace(theirs, rows=tuple(row for row in theirs.rows if row.method is not None))
    tuned = _session_table(results, unquoted, ["subspace", *_and_tuned()], False, ratio, notes, published)
    tables = [
        ReportTable("main", "Main table: sessions 1, 2 and 8", _main_table(results, ratio, notes, published)),
        *appendix,
        ReportTable("without-old-penalty", "With and without R_old, without memory", ablation),
        ReportTable("tuned", "Language regularizers with options chosen on split 0, without memory", tuned),
    ]
    return [replace(one, table=replace(one.table, title=one.heading)) for one in tables]


def networks_table(trained: Sequence[TrainedNetwork], published: Published) -> ReportTable:
    """Session-0 accuracy of both networks by seed: published, and ours where the feature files say."""
    seeds = range(1, SPLITS + 1)
    columns = [Column(f"seed_{seed}", str(seed), f"random split of seed {seed}", "By seed") for seed in seeds]
    columns.append(Column("mean", "mean", "mean over the seeds present", "By seed"))
    rows = []
    for network in published.networks:
        ours = {one.seed: one for one in trained if one.recipe == network.recipe}
        lines = {
            f"validation, {PUBLISHED}": [*network.validation, network.mean],
            f"validation, {OURS}": _by_seed({seed: one.validation for seed, one in ours.items()}, seeds),
            f"test, {OURS}": _by_seed({seed: one.test for seed, one in ours.items()}, seeds),
        }
        for what, values in lines.items():
            rows.append(Row((network.model, what), tuple(Cell(float(value)) for value in values), network.model))
    recorded = {
        network.model: sum(np.isfinite(one.validation) for one in trained if one.recipe == network.recipe)
        for network in published.networks
    }
    found = {network.model: sum(one.recipe == network.recipe for one in trained) for network in published.networks}
    present = "; ".join(
        f"{model}: {count} of {SPLITS} trained by us, validation accuracy recorded in {recorded[model]}"
        for model, count in found.items()
    )
    heading = "Two kinds of ResNet-18: session 0"
    notes = (
        f"{present}. Means of ours are over the seeds present.",
        "Seeds number random splits on both sides, but the paper's splits are other draws of classes than ours. The "
        "paper gives no test accuracy by seed; its mean over ten splits is "
        f"{published.without_memory.rows[-1].accuracy[0]:.2f}.",
        source_note(published, {network.source for network in published.networks}),
    )
    return ReportTable(
        "networks", heading, Table(("network", "accuracy (%)"), tuple(columns), tuple(rows), heading, notes)
    )


def fixed_split_table(results: Mapping[str, Sequence[MethodResult]], published: Published) -> ReportTable:
    """Ours on the fixed split, by recipe of the base session, below published rows of later systems."""
    measures = session_measures()
    columns = tuple(measure.column for measure in measures)
    rows = [
        Row((row.model, row.network, row.stored, row.source), published_cells(row, measures), PUBLISHED)
        for row in published.fixed_split.rows
    ]
    for recipe, members in results.items():
        for result in sorted(members, key=lambda result: result.memory):
            headings = (_title(result.method), f"recipe {recipe}", "1 image a class" if result.memory else "no", OURS)
            rows.append(Row(headings, our_cells(result, measures), f"{recipe}, {result.memory}"))
    heading = "Another protocol: the fixed split"
    notes = (
        "Not comparable with the tables above: one fixed class order and listed support images (Tao et al. 2020), all "
        "100 test images of every class seen. One run each: no interval.",
        "Published systems train their own networks from scratch; none was run by us. Only first, last and mean are "
        "known of some. Memory is left blank where we do not know of any.",
        source_note(published, {row.source for row in published.fixed_split.rows}),
        *_run_notes([result for members in results.values() for result in members]),
    )
    headings = ("system", "network", "memory", "source")
    return ReportTable("fixed-split", heading, Table(headings, columns, tuple(rows), heading, notes))


def session0_ratio(results: Sequence[MethodResult], published: Published) -> float:
    """The paper's session-0 accuracy over ours, both with the trained linear head."""
    row = published.without_memory.of("finetune", memory=False)
    assert row is not None
    return row.accuracy[0] / _session0(results)


def differences_table(tables: Sequence[ReportTable]) -> ReportTable:
    """Every marked cell of the tables: published, ours, scaled, and how far apart."""
    columns = tuple(
        Column(key, title, meaning)
        for key, title, meaning in (
            ("published", PUBLISHED, "the paper's cell"),
            ("ours", OURS, "as measured"),
            ("scaled", SCALED, "times the ratio of session-0 accuracies"),
            ("difference", "difference", "scaled minus published"),
        )
    )
    rows = tuple(row for one in tables for row in _marked(one))
    heading = "Differences"
    count = f"{len(rows)} published cells are" if len(rows) != 1 else "1 published cell is"
    note = f"{count} further than {FAR:g} points from ours after scaling; one value may stand in several tables."
    headings = ("table", "method", "session")
    return ReportTable("differences", heading, Table(headings, columns, rows, heading, (note, above_sentence(tables))))


def above_sentence(tables: Sequence[ReportTable]) -> str:
    """In how many cells after session 0 ours, as measured, reaches what the paper printed."""
    reached: dict[tuple[str, ...], bool] = {}  # a value that stands in two tables counts once
    for one in tables:
        if one.name not in _ALL_SESSIONS:
            continue
        lines = _lines(one)
        for model in (model for model, whose in lines if whose == PUBLISHED):
            cells = zip(one.table.columns, lines[model, PUBLISHED], lines[model, OURS], strict=True)
            for column, theirs, ours in list(cells)[1:SESSION_COUNT]:
                reached[model, column.key, _ALL_SESSIONS[one.name]] = ours.value >= theirs.value
    share = f"{sum(reached.values())} of {len(reached)}"
    return f"Not scaled, ours is at or above the published accuracy in {share} cells after session 0."


def _lines(one: ReportTable) -> dict[tuple[str, ...], tuple[Cell, ...]]:
    return {row.headings: row.cells for row in one.table.rows}


def _marked(one: ReportTable) -> Iterator[Row]:
    """One row per marked cell of a table."""
    lines = _lines(one)
    for headings, cells in lines.items():
        for number, cell in enumerate(cells):
            if cell.mark:
                model = headings[0]
                theirs, ours = (lines[model, whose][number].value for whose in (PUBLISHED, OURS))
                values = (theirs, ours, cell.value, cell.value - theirs)
                session = one.table.columns[number].title
                yield Row((one.heading, model, session), tuple(map(Cell, values)), one.name)


def splits_sentence(seeds: Sequence[int]) -> str:
    """Which of the ten random splits stand behind the means.

    >>> splits_sentence([1, 3])
    'Means over 2 of 10 splits: random-1, random-3.'
    """
    names = ", ".join(f"random-{seed}" for seed in seeds)
    return f"Means over {len(seeds)} of {SPLITS} splits: {names}."


def _main_table(results: Sequence[MethodResult], ratio: float, notes: tuple[str, ...], published: Published) -> Table:
    """Sessions 1, 2 and 8, each without and with memory."""
    sessions = published.main.sessions
    order = [(session, memory) for session in sessions for memory in (False, True)]
    columns = tuple(
        Column(
            f"session_{session}_{'with' if memory else 'without'}_memory",
            f"{session} {'+M' if memory else '-M'}",
            f"after session {session}, {'with' if memory else 'without'} memory",
            SESSIONS,
            decimals=1,  # as printed
        )
        for session, memory in order
    )

    def arranged(rows: Mapping[bool, PublishedRow | None]) -> FloatArray:
        found = {memory: row.accuracy for memory, row in rows.items() if row is not None}
        nothing = (np.nan,) * len(sessions)
        return np.array([found.get(memory, nothing)[sessions.index(session)] for session, memory in order])

    rows = [
        Row((_quoted_name(row), QUOTED), _cells(_exact(arranged({bool(row.memory): row}))), QUOTED)
        for row in published.main.quoted
    ]
    for method in _methods(results):
        name = _title(method)
        both = {memory: _find(results, method, memory) for memory in (False, True)}
        parts = [_our_line(both[memory], [session_measure(session)]) for session, memory in order]
        ours = _Line(*(np.concatenate([getattr(part, f) for part in parts]) for f in ("mean", "half_width")))
        rows_of = {memory: published.main.of(method, memory) for memory in (False, True)}
        rows += _compared(name, arranged(rows_of) if any(rows_of.values()) else None, ours, ratio, columns)
    return Table(("method", "row"), columns, tuple(rows), notes=(*notes, _quoted_note(published.main, published)))


def _session_table(
    results: Sequence[MethodResult],
    theirs: PublishedTable,
    methods: Sequence[str],
    memory: bool,
    ratio: float,
    notes: tuple[str, ...],
    published: Published,
) -> Table:
    """Sessions 0 to 8 and what they add up to, under one memory setting."""
    measures = session_measures()
    columns = tuple(measure.column for measure in measures)
    rows = [Row((_quoted_name(row), QUOTED), published_cells(row, measures), QUOTED) for row in theirs.quoted]
    for method in methods:
        row = theirs.of(method, memory)
        ours = _our_line(_find(results, method, memory), measures)
        name = row.model if row else _title(method)
        rows += _compared(name, None if row is None else _published_line(row, measures).mean, ours, ratio, columns)
    derived = "Average and drop of published rows are computed from their sessions; base and novel were not published."
    quoted = [_quoted_note(theirs, published)] if theirs.quoted else []
    return Table(("method", "row"), columns, tuple(rows), notes=(*notes, derived, *quoted))


def _compared(
    name: str, theirs: FloatArray | None, ours: _Line, ratio: float, columns: Sequence[Column]
) -> Iterator[Row]:
    """Up to three lines of one method: published, ours, ours scaled with far cells marked."""
    if theirs is not None:
        yield Row((name, PUBLISHED), _cells(_exact(theirs)), name)
    yield Row((name, OURS), _cells(ours), name)
    scaled = _Line(ours.mean * ratio, ours.half_width * ratio)
    # What the paper does not print but we derive from it (average, drop) carries no mark.
    printed = np.array([column.key.startswith("session_") for column in columns])
    far = printed & (np.abs(scaled.mean - theirs) > FAR) if theirs is not None else np.zeros(len(columns), bool)
    cells = _cells(scaled)
    yield Row((name, SCALED), tuple(replace(c, mark=MARK) if f else c for c, f in zip(cells, far, strict=True)), name)


def session_measures() -> list[Measure]:
    """What the tables over all sessions show of a result."""
    base, *others = (measure for measure in TOTAL_MEASURES if measure.column.key in _TOTALS)
    totals = [replace(one, column=replace(one.column, group=_GROUP)) for one in (base, _NOVEL, *others)]
    return [*(session_measure(session) for session in range(SESSION_COUNT)), *totals]


def _our_line(result: MethodResult, measures: Sequence[Measure]) -> _Line:
    summary = summarize(result)
    pairs = [mean_and_half_width(result, measure.samples(result, summary)) for measure in measures]
    mean, half_width = zip(*pairs, strict=True)
    return _Line(np.array(mean, dtype=np.float64), np.array(half_width, dtype=np.float64))


def our_cells(result: MethodResult, measures: Sequence[Measure]) -> tuple[Cell, ...]:
    """One line of ours."""
    return _cells(_our_line(result, measures))


def published_cells(row: PublishedRow, measures: Sequence[Measure]) -> tuple[Cell, ...]:
    """One published line."""
    return _cells(_published_line(row, measures))


def _published_line(row: PublishedRow, measures: Sequence[Measure]) -> _Line:
    """All sessions of a published row, and of the totals what is known or follows."""
    known = {f"session_{session}": value for session, value in enumerate(row.accuracy)}
    mean = row.average if np.isfinite(row.average) else float(average_accuracy(row.accuracy))
    known |= {"base": row.base, "novel": row.novel, "average": mean, "drop": float(performance_drop(row.accuracy))}
    return _exact(np.array([known.get(measure.column.key, np.nan) for measure in measures]))


def _exact(values: FloatArray) -> _Line:
    return _Line(values, np.full(len(values), np.nan))


def _cells(line: _Line) -> tuple[Cell, ...]:
    return tuple(Cell(float(mean), float(half)) for mean, half in zip(line.mean, line.half_width, strict=True))


def _by_seed(values: Mapping[int, float], seeds: Sequence[int]) -> list[float]:
    """One value per seed, NaN where there is none, and their mean."""
    given = [values.get(seed, np.nan) for seed in seeds]
    finite = [value for value in given if np.isfinite(value)]
    return [*given, float(np.mean(finite)) if finite else np.nan]


def _find(results: Sequence[MethodResult], method: str, memory: bool) -> MethodResult:
    return next(result for result in results if (result.method, result.memory) == (method, memory))


def _methods(results: Sequence[MethodResult]) -> list[str]:
    """The paper's methods and the baselines, and of ours those with results."""
    ran = {result.method for result in results}
    return [*METHODS, *(method for method in BEYOND if method in ran)]


def _and_tuned() -> Iterator[str]:
    """Each tuned method after the one it is a variant of."""
    for spec in TUNED:
        yield from (spec.partition(":")[0], spec)


def _title(method: str) -> str:
    return {**METHODS, **BEYOND, **TUNED}.get(method, method)


def _session0(results: Sequence[MethodResult]) -> float:
    result = _find(results, "finetune", False)
    return float(mean_and_half_width(result, result.base[:, 0])[0])


def _quoted_name(row: PublishedRow) -> str:
    return f"{row.model}*" if "plot" in row.source else row.model


def _quoted_note(table: PublishedTable, published: Published) -> str:
    plot = any("plot" in row.source for row in table.quoted)
    star = f" *: {published.sources['P, read off a plot']}." if plot else ""
    return f"'{QUOTED}': other systems as the paper quotes them, with their own networks; not run by us.{star}"


def source_note(published: Published, marks: set[str]) -> str:
    """What the source marks of quoted rows mean."""
    return (
        "Sources: "
        + "; ".join(f"{mark}: {published.sources[mark]}" for mark in published.sources if mark in marks)
        + "."
    )


def _notes(
    results: Sequence[MethodResult], seeds: Sequence[int], published: Published, ratio: float, recipe: str
) -> tuple[str, ...]:
    """What a reader must know of every table over the random splits."""
    ours = _session0(results)
    intervals = (
        "± is half of the 95 % interval over splits (Student t)." if len(seeds) > 1 else "One split: no interval."
    )
    return (
        f"{splits_sentence(seeds)} One support draw per split. {intervals} Base sessions by recipe '{recipe}'.",
        f"'{SCALED}' is ours times {ratio * ours:.2f} / {ours:.2f} = {ratio:.4f}, the ratio of session-0 accuracies "
        f"with the trained linear head. {MARK}: further than {FAR:g} points from the published cell after scaling.",
        f"'{PUBLISHED}': {published.sources['P']}.",
        *_run_notes(results),
    )


def _run_notes(results: Sequence[MethodResult]) -> list[str]:
    return list(dict.fromkeys(f"{result.method}: {note}" for result in results for note in result.notes))
