"""Every method against a named one, draw by draw: differences with interval, p, effect size and number of samples."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from subspan.experiments.inputs import ProtocolError
from subspan.experiments.metrics import PairedDifference, paired_difference
from subspan.experiments.report.data import plain
from subspan.experiments.report.results_table import MEASURES, Measure
from subspan.experiments.report.tables import Cell, Column, Row, Table
from subspan.experiments.results import MethodResult

FIGURES = {key: measure for key, measure in MEASURES.items() if measure.better}
OVERALL, DIFFERENCES, P_VALUES = "After all sessions", "Difference, up to each session", "p, up to each session"


def differences(result: MethodResult, other: MethodResult, measure: Measure) -> list[PairedDifference]:
    """How far a result is ahead of another in one figure of merit, after each session."""
    pairs = ([one.samples(values) for values in getattr(one, measure.figure).T] for one in (result, other))
    return [paired_difference(*pair) for pair in zip(*pairs, strict=True)]


def rivals(results: Sequence[MethodResult], method: str) -> list[tuple[MethodResult, MethodResult]]:
    """Each other result with that of the named method under the same memory setting."""
    named = {one.memory: one for one in results if one.method == method}
    pairs = [(one, named[one.memory]) for one in results if one.method != method and one.memory in named]
    if not pairs:
        raise ProtocolError(f"there is no other method to compare with '{method}'")
    return pairs


def against_table(results: Sequence[MethodResult], method: str) -> Table:
    """One line per other method, memory setting and figure of merit: the line's method less the named one."""
    sessions = range(results[0].base.shape[1])
    columns = [
        Column("difference", "difference", f"in points, of this line's method less {method}, with interval", OVERALL),
        Column("p", "p", "two-sided, of a paired t-test, not corrected", OVERALL, 4),
        Column("effect", "d", "Cohen's d: the difference in standard deviations of the differences", OVERALL),
        Column("n", "n", "draws, or splits where there are several", OVERALL, 0),
    ]
    for key, group, decimals in (("difference", DIFFERENCES, 2), ("p", P_VALUES, 4)):
        columns += [Column(f"{key}_{t}", str(t), f"{key} after session {t}", group, decimals) for t in sessions]
    rows = []
    for result, other in rivals(results, method):
        for key, measure in FIGURES.items():
            found = differences(result, other, measure)
            last = found[-1]
            cells = {"p": Cell(last.p_value), "effect": Cell(last.effect), "n": Cell(last.count)}
            for name, one in (("", last), *((f"_{t}", one) for t, one in enumerate(found))):
                cells |= {f"difference{name}": Cell(one.mean, one.half_width), f"p{name}": Cell(one.p_value)}
            rows.append(Row((result.label, "yes" if result.memory else "no", key), cells, result.label))
    notes = (
        f"Differences to {method} on the same draws, in points; drop and forgetting: less is better.",
        "p: two-sided paired t-test, not corrected for the number of lines. d: Cohen's of paired samples. A dash: "
        "differences without spread, or too few draws.",
    )
    return Table(
        ("method", "memory", "figure"), tuple(columns), tuple(rows), f"Against {method}", notes, name="against"
    )


def against_json(results: Sequence[MethodResult], method: str) -> list[dict[str, Any] | None]:
    """For each result its differences to the named method by figure of merit and session; null where there are none."""
    others = {id(result): other for result, other in rivals(results, method)}
    return [
        {
            "method": method,
            **{
                measure.figure: [
                    {name: plain(value) for name, value in asdict(one).items()}
                    for one in differences(result, others[id(result)], measure)
                ]
                for measure in FIGURES.values()
            },
        }
        if id(result) in others
        else None
        for result in results
    ]
