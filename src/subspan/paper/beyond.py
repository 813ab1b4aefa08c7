"""Beyond the paper: a method of our own against every other at the last session, split by split."""

from collections.abc import Sequence

import numpy as np

from subspan.experiments.metrics import paired_tests
from subspan.experiments.report.html import ReportTable
from subspan.experiments.report.summary import independent_samples, mean_and_half_width, summarize
from subspan.experiments.report.tables import Cell, Column, Row, Table
from subspan.experiments.results import MethodResult
from subspan.paper.multi_session_tables import BEYOND, METHODS, splits_sentence

LEVEL = 0.01


def beyond_table(results: Sequence[MethodResult], seeds: Sequence[int]) -> ReportTable:
    """Every method of ``BEYOND`` against those of the tables, all over the random splits ``seeds``."""
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
        halves = [_half(results, ours, others, memory) for memory in (False, True)]
        for method in (ours, *others):
            cells = tuple(cell for half in halves for cell in half[method])
            rows.append(Row((title if method == ours else METHODS[method],), cells, ours))
    heading = "Beyond the paper: the last session"
    notes = (
        f"{splits_sentence(seeds)} Only these have what the method needs. Its options were chosen on split 0, which no "
        "table reports.",
        f"p: paired t-test over splits, times the number of comparisons; the bar is p < {LEVEL}."
        + (" Two splits have one degree of freedom: such a p says little." if len(seeds) == 2 else ""),
    )
    return ReportTable("beyond", heading, Table(("method",), columns, tuple(rows), heading, notes))


def _half(
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
