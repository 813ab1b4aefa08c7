"""The paper's multi-session tables, made anew: published beside ours, and beside ours scaled to the paper's session 0.

Networks differ in what they reach before the first incremental session, and that rules everything after. So each of our
rows stands there twice: as measured, and times the ratio of session-0 accuracies (the paper's / ours). A scaled cell
further than ``FAR`` points from the published one is marked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from subspan.arrays import FloatArray
from subspan.experiments.metrics import average_accuracy, paired_tests, performance_drop
from subspan.experiments.report.html import ReportTable
from subspan.experiments.report.summary import independent_samples, mean_and_half_width, summarize
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
ABLATION = ("semantic:beta_base=0,beta_novel=0", "finetune:beta_base=0,beta_novel=0")  # without R_old
_CHOSEN = "gamma=0.5,beta_base=0.8,beta_novel=1"
TUNED: Mapping[str, str] = {  # chosen by `subspan sweep` on the development split, which no table reports
    f"semantic:{_CHOSEN}": "Semantic subspace, options of split 0",
    f"linear_map:{_CHOSEN}": "Linear mapping, options of split 0",
}
LEVEL = 0.01  # of the tests against methods of our own
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
    """Over the random splits ``seeds``: the main table, then all sessions without and with memory.

    Without memory the ablation of R_old, a table of its own in the paper, and the variants tuned by us follow.
    """
    ratio = session0_ratio(results, published)
    notes = _notes(results, seeds, published, ratio, recipe)
    ran = {result.method for result in results}
    methods = [*METHODS, *(method for method in BEYOND if method in ran)]
    tables = [
        ReportTable("main", "Main table: sessions 1, 2 and 8", _main_table(results, methods, ratio, notes, published))
    ]
    for name, memory, theirs in (
        ("without", False, published.without_memory),
        ("with", True, published.with_memory),
    ):
        added = () if memory else (*ABLATION, *TUNED)
        table = _session_table(results, theirs, [*methods, *added], memory, ratio, notes, published)
        tables.append(ReportTable(f"sessions-{name}-memory", f"All sessions, {name} memory", table))
    return [replace(one, table=replace(one.table, title=one.heading)) for one in tables]


def networks_table(trained: Sequence[TrainedNetwork], published: Published) -> ReportTable:
    """Session-0 accuracy of both networks by seed: published, and ours where the feature files say."""
    seeds = range(1, SPLITS + 1)
    columns = [Column(f"seed_{seed}", str(seed), f"random split of seed {seed}", "By seed") for seed in seeds]
    columns.append(Column("mean", "mean", "mean over the seeds present", "By seed"))
    rows = []
    for network in published.networks:
        ours = {one.seed: one for one in trained if one.recipe == network.recipe}
        lines = {f"validation, {PUBLISHED}": [*network.validation, network.mean]}
        if ours:
            lines |= {
                f"validation, {OURS}": _by_seed({seed: one.validation for seed, one in ours.items()}, seeds),
                f"test, {OURS}": _by_seed({seed: one.test for seed, one in ours.items()}, seeds),
            }
        for what, values in lines.items():
            rows.append(Row((network.model, what), tuple(Cell(float(value)) for value in values), network.model))
    heading = "Two kinds of ResNet-18: session 0"
    notes = (
        "The paper's splits are other draws of classes; of test accuracy it gives the mean over ten splits alone, "
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
        "Another protocol: one class order, listed support images (Tao et al. 2020), one run. Where memory is blank we "
        "know of none.",
        source_note(published, {row.source for row in published.fixed_split.rows}),
        *run_notes([result for members in results.values() for result in members]),
    )
    headings = ("system", "network", "memory", "source")
    return ReportTable("fixed-split", heading, Table(headings, columns, tuple(rows), heading, notes))


def session0_ratio(results: Sequence[MethodResult], published: Published) -> float:
    """The paper's session-0 accuracy over ours, both with the trained linear head."""
    row = published.without_memory.of("finetune", memory=False)
    assert row is not None
    return row.accuracy[0] / _session0(results)


def beyond_table(results: Sequence[MethodResult], seeds: Sequence[int]) -> ReportTable:
    """Every method of ``BEYOND`` against those of the tables at the last session, over the random splits ``seeds``."""
    columns = tuple(
        Column(f"{key}_{name}_memory", f"{title} {sign}", f"{meaning}, {name} memory", "Last session", decimals)
        for name, sign in (("without", "-M"), ("with", "+M"))
        for key, title, meaning, decimals in (
            ("accuracy", "accuracy", "weighted accuracy (%)", 2),
            ("lead", "lead", "accuracy of our method minus that of this one", 2),
            ("p", "p", "two-sided, of a paired t-test over splits, after Bonferroni correction", 4),
        )
    )
    rows = []
    for ours, title in BEYOND.items():
        others = [method for method in METHODS if method != ours]
        halves = [_leads(results, ours, others, memory) for memory in (False, True)]
        for method in (ours, *others):
            cells = tuple(cell for half in halves for cell in half[method])
            rows.append(Row((title if method == ours else METHODS[method],), cells, ours))
    heading = "Beyond the paper: the last session"
    notes = (
        f"{splits_sentence(seeds)} Options of our own method were chosen on split 0, which no table reports.",
        f"p: paired t-test over splits, times the number of comparisons; the bar is p < {LEVEL}."
        + (" Two splits have one degree of freedom: such a p says little." if len(seeds) == 2 else ""),
    )
    return ReportTable("beyond", heading, Table(("method",), columns, tuple(rows), heading, notes))


def _leads(
    results: Sequence[MethodResult], ours: str, others: Sequence[str], memory: bool
) -> dict[str, tuple[Cell, Cell, Cell]]:
    """Accuracy, lead and p of each method under one memory setting."""
    found = {result.method: result for result in results if result.memory == memory}
    last = {method: summarize(found[method]).weighted[:, -1] for method in (ours, *others)}
    samples = {method: independent_samples(found[method], values) for method, values in last.items()}
    tests = paired_tests(samples, against=ours)
    cells = {}
    for method, values in last.items():
        mean, half_width = mean_and_half_width(found[method], values)
        lead = float(np.mean(samples[ours] - samples[method])) if method != ours else np.nan
        p_value = tests[method].p_value if method != ours else np.nan
        cells[method] = (Cell(float(mean), float(half_width)), Cell(lead), Cell(p_value))
    return cells


def reached_sentence(tables: Sequence[ReportTable]) -> str:
    """In how many cells after session 0 ours, as measured, reaches what the paper printed, and how many are far off."""
    reached, far = [], 0
    for one in (one for one in tables if one.name.startswith("sessions-")):
        lines = {row.headings: row.cells for row in one.table.rows}
        for model in (model for model, whose in lines if whose == PUBLISHED):
            published, ours = (lines[model, whose][1:SESSION_COUNT] for whose in (PUBLISHED, OURS))
            reached += [mine.value >= theirs.value for theirs, mine in zip(published, ours, strict=True)]
        far += sum(bool(cell.mark) for cells in lines.values() for cell in cells)
    return (
        f"Not scaled, ours is at or above the published accuracy in {sum(reached)} of {len(reached)} cells after "
        f"session 0; scaled, {far} are further than {FAR:g} points from it ({MARK})."
    )


def splits_sentence(seeds: Sequence[int]) -> str:
    """Which of the ten random splits stand behind the means.

    >>> splits_sentence([1, 3])
    'Means over 2 of 10 splits: random-1, random-3.'
    """
    if len(seeds) == SPLITS:
        return f"Means over random splits 1 to {SPLITS}."
    names = ", ".join(f"random-{seed}" for seed in seeds)
    return f"Means over {len(seeds)} of {SPLITS} splits: {names}."


def _main_table(
    results: Sequence[MethodResult],
    methods: Sequence[str],
    ratio: float,
    notes: tuple[str, ...],
    published: Published,
) -> Table:
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
    for method in methods:
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
        row = theirs.of(method, memory) or published.old_penalty.of(method, memory)
        ours = _our_line(_find(results, method, memory), measures)
        name = row.model if row else _title(method)
        rows += _compared(name, None if row is None else _published_line(row, measures).mean, ours, ratio, columns)
    derived = "Average and drop of published rows are computed from their sessions; base and novel were not published."
    return Table(
        ("method", "row"),
        columns,
        tuple(rows),
        notes=(*notes, derived, _quoted_note(published.without_memory, published)),
    )


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
        f"'{SCALED}' is ours times {ratio * ours:.2f} / {ours:.2f} = {ratio:.4f}, the ratio of session-0 accuracies. "
        f"{MARK}: further than {FAR:g} points from the published cell after scaling.",
        f"'{PUBLISHED}': {published.sources['P']}.",
        *run_notes(results),
    )


def run_notes(results: Sequence[MethodResult]) -> list[str]:
    """What the runs had to say, the same once."""
    return list(dict.fromkeys(f"{result.method}: {note}" for result in results for note in result.notes))
