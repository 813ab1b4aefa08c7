"""The table beyond the paper against SciPy and arithmetic by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from subspan.report.beyond import beyond_table
from subspan.report.reproduction import BEYOND, METHODS

TITLES = {**BEYOND, **METHODS}


@pytest.fixture
def results(result):
    """Three splits; equal base and novel accuracies, so that the weighted one is the same number."""
    made = []
    for number, method in enumerate(TITLES):
        for memory in (False, True):
            one = result(method, memory, draws=3, splits=[0, 1, 2])
            last = np.array([50.0, 52.0, 57.0]) - number * np.array([1.0, 1.5, 2.5]) + memory
            filled = np.tile(last[:, None], one.base.shape[1])
            made.append(replace(one, base=filled, novel=np.where(np.isnan(one.novel), np.nan, filled)))
    return made


def test_leads_and_p_values(results):
    table = beyond_table(results, [2, 3, 5]).table
    lines = {row.headings: [cell.value for cell in row.cells] for row in table.rows}
    assert len(lines) == len(BEYOND) * len(TITLES)
    ours, other = BEYOND.values()
    assert lines[ours, ours][0] == pytest.approx(53)
    assert np.isnan(lines[ours, ours][1:3]).all()
    assert lines[other, ours][1] == pytest.approx(-lines[ours, other][1]) == pytest.approx(-5 / 3)
    subspace = list(TITLES).index("subspace")
    accuracy, lead, p, accuracy_with, lead_with, p_with = lines[ours, "Subspace"]
    assert (accuracy, lead) == (pytest.approx(53 - subspace * 5 / 3), pytest.approx(subspace * 5 / 3))
    theirs = np.array([50, 52, 57]) - subspace * np.array([1, 1.5, 2.5])
    expected = stats.ttest_rel([50, 52, 57], theirs).pvalue * (len(TITLES) - 1)
    assert p == pytest.approx(expected)
    assert p_with == pytest.approx(expected)
    assert (accuracy_with, lead_with) == (pytest.approx(accuracy + 1), pytest.approx(lead))
    assert "random-2, random-3, random-5" in table.notes[0]


def test_results_of_some_splits_alone(results):
    chosen = results[0].of_splits([0, 2])
    assert chosen.base[:, -1].tolist() == [50.0, 57.0]
    assert chosen.splits.tolist() == [0, 2]
    assert chosen.confusion is None
    assert chosen.seconds == pytest.approx(results[0].seconds * 2 / 3)
    assert results[0].seconds > 0
