"""The table beyond the paper against SciPy and arithmetic by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from subspan.paper.published import published
from subspan.paper.tables.multi_session import BEYOND, METHODS, beyond_table


@pytest.fixture
def results(result):
    """Three splits; equal base and novel accuracies, so that the weighted one is the same number."""
    made = []
    for number, method in enumerate((*BEYOND, *METHODS)):
        for memory in (False, True):
            one = result(method, memory, draws=3, splits=[0, 1, 2])
            last = np.array([50.0, 52.0, 57.0]) - number * np.array([1.0, 1.5, 2.5]) + memory
            filled = np.tile(last[:, None], one.base.shape[1])
            made.append(replace(one, base=filled, novel_session_mean=np.where(np.isnan(one.novel), np.nan, filled)))
    return made


def test_leads_and_p_values(results):
    table = beyond_table(results, [2, 3, 5], published())
    lines = {row.headings[0]: [row[column.key].value for column in table.columns] for row in table.rows}
    ours = next(iter(BEYOND.values()))
    assert lines[ours][0] == pytest.approx(53)
    assert np.isnan(lines[ours][1:3]).all()
    accuracy, lead, p, accuracy_with, lead_with, p_with = lines["Subspace"]  # the second of METHODS: number 2
    assert (accuracy, lead) == (pytest.approx(53 - 2 * 5 / 3), pytest.approx(2 * 5 / 3))
    expected = stats.ttest_rel([50, 52, 57], [48, 49, 52]).pvalue * len(METHODS)
    assert p == pytest.approx(expected)
    assert p_with == pytest.approx(expected)
    assert (accuracy_with, lead_with) == (pytest.approx(accuracy + 1), pytest.approx(lead))
    assert "random-2, random-3, random-5" in table.notes[0]
