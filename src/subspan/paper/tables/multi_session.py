"""The paper's multi-session tables, made anew: published beside ours, and beside ours scaled to the paper's session 0.

Networks differ in what they reach before the first incremental session, and that rules everything after. So each of our
rows stands there twice: as measured, and times the ratio of session-0 accuracies (the paper's / ours). A scaled cell
further than ``FAR`` points from the published one is marked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from subspan.experiments.metrics import interval_half_width, paired_tests
from subspan.experiments.report.results_table import SESSIONS, Measure, measures_of
from subspan.experiments.report.tables import Cell, Column, Row, Table, not_below_best
from subspan.experiments.results import MethodResult
from subspan.paper.published import OURS, PUBLISHED, QUOTED, Published, PublishedRow, Rows

FAR = 2.0  # points between the published and the scaled cell
MARK = "†"
SCALED = "ours, scaled"
SPLITS = 10  # random splits behind the paper's means
SESSION_COUNT = 9  # session 0 included
BOLD = "Bold: ours on all splits, not below the best of its column (paired t-test, p < 0.05 after Bonferroni)."

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
TUNED: Mapping[str, str] = {  # chosen by `subspan sweep` on the development split, another draw of the same classes
    f"semantic:{_CHOSEN}": "Semantic subspace, options of split 0",
    f"linear_map:{_CHOSEN}": "Linear mapping, options of split 0",
}

_NOVEL = Column("novel", "novel", "accuracy on novel classes, mean over sessions as in the paper's code")
_EVERY = {one.column.key: one for one in measures_of(SESSION_COUNT)} | {"novel": Measure(_NOVEL, "novel_session_mean")}
_GROUP = "After the last session, and over all sessions"
_TOTALS = ("base", "novel", "harmonic", "plain_harmonic", "average", "drop")
MEASURES = (  # what tables over all sessions show
    *(_EVERY[f"session_{session}"] for session in range(SESSION_COUNT)),
    *(replace(_EVERY[key], column=replace(_EVERY[key].column, group=_GROUP)) for key in _TOTALS),
)
COLUMNS = tuple(measure.column for measure in MEASURES)


def our_cells(result: MethodResult) -> dict[str, Cell]:
    """One line of ours."""
    return {measure.column.key: measure.cell_of(result) for measure in MEASURES}


def all_cells(results: Sequence[MethodResult]) -> list[dict[str, Cell]]:
    """The lines of ours, with what a paired test does not separate from the best of its memory setting marked.

    Only results on all the splits are compared, so that their samples are pairs.
    """
    every = [our_cells(result) for result in results]
    for memory in (False, True):
        mine = [i for i, result in enumerate(results) if result.memory == memory]
        most = max((len(np.unique(results[i].splits)) for i in mine), default=0)
        whole = [i for i in mine if len(np.unique(results[i].splits)) == most]
        for session in range(1, SESSION_COUNT):
            samples = [results[i].samples(results[i].weighted[:, session]) for i in whole]
            for i, top in zip(whole, not_below_best(samples), strict=True):
                every[i][f"session_{session}"] = replace(every[i][f"session_{session}"], top=top)
    return every


def random_split_tables(
    results: Sequence[MethodResult], seeds: Sequence[int], published: Published, recipe: str = "paper"
) -> list[Table]:
    """Over the random splits ``seeds``: the main table, then all sessions without and with memory.

    Without memory the ablation of R_old, a table of its own in the paper, and the variants tuned by us follow.
    """
    ours = {(one.method, one.memory): cells for one, cells in zip(results, all_cells(results), strict=True)}
    first, ratio = ours["finetune", False]["session_0"].value, session0_ratio(results, published)
    interval = "± is half of the 95 % interval over splits (Student t)" if len(seeds) > 1 else "One split: no interval"
    notes = (
        f"{splits_sentence(seeds)} One support draw per split. {interval}. Base sessions by recipe '{recipe}'.",
        f"'{SCALED}' is ours times {ratio * first:.2f} / {first:.2f} = {ratio:.4f}, the ratio of session-0 accuracies. "
        f"{MARK}: further than {FAR:g} points from the published cell after scaling.",
        f"{BOLD} Published means are over ten splits of the paper's own.",
        *run_notes(results),
    )
    methods = [*METHODS, *(method for method in BEYOND if (method, False) in ours)]
    titles = {**METHODS, **BEYOND, **TUNED}

    # The main table has both memory settings side by side.
    keys = {
        (f"session_{session}", memory): f"session_{session}_{_with(memory)}_memory"
        for session in published.main[0].sessions
        for memory in (False, True)
    }
    columns = []
    for (_, memory), key in keys.items():
        session, sign = key.split("_")[1], "+M" if memory else "-M"
        meaning = f"after session {session}, {_with(memory)} memory"
        columns.append(Column(key, f"{session} {sign}", meaning, SESSIONS, decimals=1))  # as printed

    def beside(found: Mapping[bool, Mapping[str, Cell] | None]) -> dict[str, Cell]:
        return {key: cells[place] for (place, memory), key in keys.items() if (cells := found.get(memory))}

    rows = [
        Row((_quoted_name(row), QUOTED), beside({bool(row.memory): row.cells}), QUOTED)
        for row in quoted(published.main)
    ]
    for method in methods:
        theirs = {
            memory: row.cells for memory in (False, True) if (row := published.row(method, memory, published.main))
        }
        both = beside({memory: ours[method, memory] for memory in (False, True)})
        rows += _compared(titles[method], beside(theirs), both, ratio)
    title = "Main table: sessions 1, 2 and 8"
    tables = [Table(("method", "row"), tuple(columns), tuple(rows), title, notes, name="main")]
    for memory, theirs in ((False, published.without_memory), (True, published.with_memory)):
        rows = [Row((_quoted_name(row), QUOTED), row.cells, QUOTED) for row in quoted(theirs)]
        for method in (*methods, *(() if memory else (*ABLATION, *TUNED))):
            row = published.row(method, memory, theirs, published.old_penalty)
            name = row.model if row else titles[method]
            rows += _compared(name, row.cells if row else {}, ours[method, memory], ratio)
        title, name = f"All sessions, {_with(memory)} memory", f"sessions-{_with(memory)}-memory"
        tables.append(Table(("method", "row"), COLUMNS, tuple(rows), title, notes, name=name))
    return tables


def session0_ratio(results: Sequence[MethodResult], published: Published) -> float:
    """The paper's session-0 accuracy over ours, both with the trained linear head."""
    row = published.row("finetune", False, published.without_memory)
    ours = next(result for result in results if (result.method, result.memory) == ("finetune", False))
    assert row is not None
    return row.accuracy[0] / float(ours.samples(ours.base[:, 0]).mean())


def _compared(name: str, theirs: Mapping[str, Cell], ours: Mapping[str, Cell], ratio: float) -> Iterator[Row]:
    """Up to three lines of one method: published, ours, ours scaled with far cells marked."""
    if theirs:
        yield Row((name, PUBLISHED), theirs, name)
    yield Row((name, OURS), ours, name)
    scaled = {}
    for key, cell in ours.items():
        value = cell.value * ratio
        # What the paper does not print but we derive from it (average, drop) carries no mark.
        far = key.startswith("session_") and key in theirs and abs(value - theirs[key].value) > FAR
        scaled[key] = Cell(value, cell.half_width * ratio, mark=MARK if far else "")
    yield Row((name, SCALED), scaled, name)


def networks_table(trained: Mapping[str, Mapping[int, Mapping[str, float]]], published: Published) -> Table:
    """Session-0 accuracy of both networks by seed: published, and ours where the feature files say.

    ``trained`` are accuracies on "validation" and "test" images, by recipe and seed.
    """
    seeds = range(1, SPLITS + 1)
    columns = [Column(f"seed_{seed}", str(seed), f"random split of seed {seed}", "By seed") for seed in seeds]
    columns.append(Column("mean", "mean", "mean over the seeds present", "By seed"))
    rows = []
    for network in published.networks:
        cells = {f"seed_{seed}": Cell(value) for seed, value in zip(seeds, network.validation, strict=True)}
        cells["mean"] = Cell(network.mean)
        rows.append(Row((network.model, f"validation, {PUBLISHED}"), cells, network.model))
        for kind in ("validation", "test") if trained.get(network.recipe) else ():
            found = {seed: said[kind] for seed, said in trained[network.recipe].items() if kind in said}
            cells = {f"seed_{seed}": Cell(value) for seed, value in found.items()}
            cells["mean"] = Cell(float(np.mean(list(found.values()))) if found else np.nan)
            rows.append(Row((network.model, f"{kind}, {OURS}"), cells, network.model))
    notes = (
        "The paper's splits are other draws of classes; of test accuracy it gives the mean over ten splits alone, "
        f"{published.without_memory[-1].accuracy[0]:.2f}.",
    )
    title = "Two kinds of ResNet-18: session 0"
    return Table(("network", "accuracy (%)"), tuple(columns), tuple(rows), title, notes, name="networks")


def fixed_split_table(results: Sequence[MethodResult], recipe: str, published: Published) -> Table:
    """Ours on the fixed split below published rows of later systems."""
    rows = [
        Row((row.model, row.network, row.stored, row.source), row.cells, PUBLISHED) for row in published.fixed_split
    ]
    for result in sorted(results, key=lambda result: result.memory):
        name, stored = {**METHODS, **BEYOND}[result.method], "1 image a class" if result.memory else "no"
        rows.append(Row((name, f"recipe {recipe}", stored, OURS), our_cells(result), f"{recipe}, {result.memory}"))
    notes = (
        "Another protocol: one class order, listed support images (Tao et al. 2020), one run. Where memory is blank we "
        "know of none.",
        *run_notes(results),
    )
    headings = ("system", "network", "memory", "source")
    title = "Another protocol: the fixed split"
    return Table(headings, COLUMNS, tuple(rows), title, notes, name="fixed-split")


def rivals_table(results: Sequence[MethodResult], seeds: Sequence[int], published: Published) -> Table:
    """The last session of ours against the published one, and by a paired test against the best other row of ours."""
    parts = {
        "published": ("published", "ten splits of the paper's own"),
        "ours": ("ours", "weighted accuracy (%)"),
        "apart": ("less published", "ours less published; of other splits, so there is no paired test"),
        "rival": ("best other", "the best other row"),
        "lead": ("less it", "ours less the best other, paired by split"),
        "p": ("p", "two-sided, of a paired t-test over splits, times the number of comparisons"),
    }
    columns = tuple(Column(key, *said, decimals=4 if key == "p" else 2) for key, said in parts.items())
    rows, titles = [], {**METHODS, **BEYOND}
    for memory in (False, True):
        found = {one.method: one for one in results if one.memory == memory and one.method in titles}
        last = {name: one.samples(one.weighted[:, -1]) for name, one in found.items()}
        for name, values in last.items():
            best = max((other for other in last if other != name), key=lambda other: last[other].mean())
            theirs = published.row(name, memory, published.without_memory, published.with_memory)
            samples = {"ours": values, "lead": values - last[best]}
            cells = {key: Cell(float(of.mean()), float(interval_half_width(of))) for key, of in samples.items()}
            cells |= {"published": Cell(theirs.accuracy[-1] if theirs else np.nan), "rival": Cell(last[best].mean())}
            cells |= {"apart": Cell(cells["ours"].value - cells["published"].value)}
            cells |= {"p": Cell(paired_tests(last, against=best)[name].p_value)}
            rows.append(Row((titles[name], "+M" if memory else "-M", titles[best]), cells, str(memory)))
    few = " Two splits have one degree of freedom: a p says little." if len(seeds) == 2 else ""
    notes = (f"{splits_sentence(seeds)} Options of {', '.join(BEYOND.values())} were chosen on split 0.{few}",)
    headings, title = ("method", "memory", "best other row"), "The last session: published, ours, our best other row"
    return Table(headings, columns, tuple(rows), title, notes, name="rivals")


def reached_sentence(tables: Sequence[Table]) -> str:
    """In how many cells after session 0 ours, as measured, reaches what the paper printed, and how many are far off."""
    reached, far = [], 0
    for table in (table for table in tables if table.name.startswith("sessions-")):
        lines = {row.headings: row for row in table.rows}
        for model in (model for model, whose in lines if whose == PUBLISHED):
            for key in (f"session_{session}" for session in range(1, SESSION_COUNT)):
                reached.append(lines[model, OURS][key].value >= lines[model, PUBLISHED][key].value)
        far += sum(bool(cell.mark) for row in table.rows for cell in row.cells.values())
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


def run_notes(results: Sequence[MethodResult]) -> list[str]:
    """What the runs had to say, the same once."""
    return list(dict.fromkeys(f"{result.method}: {note}" for result in results for note in result.notes))


def _with(memory: bool) -> str:
    return "with" if memory else "without"


def _quoted_name(row: PublishedRow) -> str:
    return f"{row.model}*" if "plot" in row.source else row.model


def quoted(rows: Rows) -> list[PublishedRow]:
    """Rows of systems that are none of our methods."""
    return [row for row in rows if row.method is None]
