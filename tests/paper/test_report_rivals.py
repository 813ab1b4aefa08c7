"""The last session against the best other row, by SciPy and arithmetic by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from subspan.paper.published import published
from subspan.paper.tables.multi_session import BEYOND, METHODS, rivals_table

TITLES = {**METHODS, **BEYOND}


@pytest.fixture
def last(result):
    """Results of three splits, and their last accuracy by method and memory; base and novel accuracy are the same."""
    made, known = [], {}
    for number, method in enumerate((*BEYOND, *METHODS)):
        for memory in (False, True):
            one = result(method, memory, draws=3, splits=[0, 1, 2])
            values = np.array([50.0, 52.0, 57.0]) - number * np.array([1.0, 1.5, 2.5]) + memory
            filled = np.tile(values[:, None], one.base.shape[1])
            made.append(replace(one, base=filled, novel_session_mean=np.where(np.isnan(one.novel), np.nan, filled)))
            known[method, memory] = values
    return made, known


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("method", TITLES)
def test_ours_is_tested_against_the_best_other_row(last, method, memory):
    results, known = last
    table = rivals_table(results, [2, 3, 5], published())
    best = max((name for name in TITLES if name != method), key=lambda name: known[name, memory].mean())
    (row,) = [row for row in table.rows if row.headings == (TITLES[method], "+M" if memory else "-M", TITLES[best])]
    mine, rival = known[method, memory], known[best, memory]
    assert row["ours"].value == pytest.approx(mine.mean())
    low, high = stats.t.interval(0.95, 2, mine.mean(), stats.sem(mine))
    assert row["ours"].half_width == pytest.approx((high - low) / 2)
    assert (row["rival"].value, row["lead"].value) == pytest.approx((rival.mean(), (mine - rival).mean()))
    p = min(1, stats.ttest_rel(mine, rival).pvalue * (len(TITLES) - 1))  # as many comparisons as there are others
    assert row["p"].value == pytest.approx(p)
    assert table.notes[0].startswith("Means over 3 of 10 splits: random-2, random-3, random-5.")


def test_ours_stands_beside_the_published_value(last):
    results, known = last
    rows = {row.headings[:2]: row for row in rivals_table(results, [2, 3, 5], published()).rows}
    assert rows["Subspace", "+M"]["published"].value == 48.83
    assert rows["Subspace", "+M"]["apart"].value == pytest.approx(known["subspace", True].mean() - 48.83)
    assert np.isnan(rows["Prototypes", "-M"]["apart"].value)
