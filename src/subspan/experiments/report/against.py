"""Every method against a named one, draw by draw: differences with interval, p, effect size and number of samples."""

from collections.abc import Sequence

import numpy as np

from subspan.experiments.metrics import PairedDifference, paired_difference
from subspan.experiments.records import Result
from subspan.experiments.report.results_table import Measure, compared
from subspan.experiments.report.tables import Cell, Column, Row, Table

OVERALL, DIFFERENCES, P_VALUES = "After all sessions", "Difference, up to each session", "p, up to each session"


def differences(result: Result, other: Result, measure: Measure) -> list[PairedDifference]:
    """How far a result is ahead of another in one figure of merit, after each session; of episodes once."""
    both = (np.atleast_2d(getattr(one, measure.figure).T) for one in (result, other))
    pairs = ([one.samples(values) for values in figures] for one, figures in zip((result, other), both, strict=True))
    return [paired_difference(*pair) for pair in zip(*pairs, strict=True)]


def against_table(results: Sequence[Result], method: str) -> Table:
    """One line per other method, memory setting and figure of merit: the line's method less the named one."""
    sessions = range(results[0].base.shape[1]) if results[0].base.ndim == 2 else ()
    overall = OVERALL if sessions else "Over all episodes"
    columns = [
        Column("difference", "difference", f"in points, of this line's method less {method}, with interval", overall),
        Column("p", "p", "two-sided, of a paired t-test, not corrected", overall, 4),
        Column("effect", "d", "Cohen's d: the difference in standard deviations of the differences", overall),
        Column("n", "n", "draws, or splits or orders where there are several, or episodes", overall, 0),
    ]
    for key, group, decimals in (("difference", DIFFERENCES, 2), ("p", P_VALUES, 4)):
        columns += [Column(f"{key}_{t}", str(t), f"{key} after session {t}", group, decimals) for t in sessions]
    rows = []
    named = {one.block: one for one in results if one.method == method}
    for result, other in ((one, named[one.block]) for one in results if one.method != method):
        for key, measure in compared(result).items():
            found = differences(result, other, measure)
            last = found[-1]
            cells = {"p": Cell(last.p_value), "effect": Cell(last.effect), "n": Cell(last.count)}
            for name, one in (("", last), *((f"_{t}", one) for t, one in enumerate(found))):
                cells |= {f"difference{name}": Cell(one.mean, one.half_width), f"p{name}": Cell(one.p_value)}
            rows.append(Row((result.label, result.block, key), cells, result.label))
    notes = (
        f"Differences to {method} on the same draws, in points; drop and forgetting: less is better.",
        "p: two-sided paired t-test, not corrected for the number of lines. d: Cohen's of paired samples. A dash: "
        "differences without spread, or too few draws.",
    )
    return Table(
        ("method", results[0].setting[1], "figure"),
        tuple(columns),
        tuple(rows),
        f"Against {method}",
        notes,
        name="against",
    )
