"""Differences to one method: by hand, and by SciPy's paired t-test."""

import dataclasses

import numpy as np
import pytest
from scipy import stats

from subspan.experiments.metrics import paired_difference
from subspan.experiments.report.against import against_table
from subspan.experiments.report.render import to_csv, to_markdown


def test_difference_interval_p_effect_and_count_are_scipys():
    rng = np.random.default_rng(0)
    for count in (2, 5, 30):
        first, second = rng.normal(60, 3, count), rng.normal(58, 3, count)
        found, test = paired_difference(first, second), stats.ttest_rel(first, second)
        low, high = test.confidence_interval(0.95)
        assert found.p_value == pytest.approx(test.pvalue)
        assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx((low, high))
        assert found.effect == pytest.approx(test.statistic / count**0.5)
        assert found.count == count


def test_differences_without_spread_have_a_mean_and_nothing_else():
    for first in ([50.0], [50.0, 60.0, 70.0]):
        found = paired_difference(first, np.array(first) - 1.5)
        assert (found.mean, found.count) == (1.5, len(first))
        assert np.isnan([found.half_width, found.p_value, found.effect]).all()


def test_the_table_has_every_figure_by_session_under_each_memory_setting(result):
    results = [result(name, memory, seed=n) for n, (name, memory) in enumerate(
        (name, memory) for memory in (False, True) for name in ("mine", "theirs"))]  # fmt: skip
    table = against_table(results, "theirs")
    assert {row.headings[:2] for row in table.rows} == {("mine", "no"), ("mine", "yes")}
    figures = {"images", "class_mean", "weighted", "base", "novel", "harmonic", "plain_harmonic"}
    assert {row.headings[2] for row in table.rows} == figures | {"average", "drop", "forgetting", "gacc"}
    row = next(row for row in table.rows if row.headings == ("mine", "yes", "weighted"))
    for session in range(4):
        mine, theirs = results[2].weighted[:, session], results[3].weighted[:, session]
        assert row[f"difference_{session}"].value == pytest.approx(np.mean(mine - theirs))
        assert row[f"p_{session}"].value == pytest.approx(stats.ttest_rel(mine, theirs).pvalue)
    assert row["difference"] == row["difference_3"]
    assert row["n"].value == 5
    assert "Against theirs" in to_markdown(table)
    assert to_csv(table).count("\n") == 1 + 22


def test_several_splits_count_once_each(result):
    splits = [0, 0, 1, 1, 2, 2]
    pair = [result(name, draws=6, splits=splits, seed=n) for n, name in enumerate(("mine", "theirs"))]
    first, second = (one.base[:, -1].reshape(3, 2).mean(1) for one in pair)
    row = next(row for row in against_table(pair, "theirs").rows if row.headings[2] == "base")
    assert row["n"].value == 3
    assert row["p"].value == pytest.approx(stats.ttest_rel(first, second).pvalue)


def test_sums_up_to_each_session_by_hand(result):
    """6 base classes, then sessions of 2: weighted accuracies of 80, (6 * 70 + 2 * 30) / 8 = 60 and 50."""
    one = dataclasses.replace(
        result(draws=1, sessions=2),
        base=np.array([[80.0, 70.0, 60.0]]),
        novel_session_mean=np.array([[np.nan, 30.0, 35.0]]),
    )
    np.testing.assert_allclose(one.average, [[80.0, 70.0, 190 / 3]])
    np.testing.assert_allclose(one.drop, [[0.0, 20.0, 30.0]])
    # weights 0 to 3 of the base session, areas by the trapezoidal rule; session 0 counts as 0 at weight 0
    g = [(0 + 30) / 2, (80 + (70 + 30) / 2) / 2, (80 + (140 + 30) / 3) / 2, (80 + (210 + 30) / 4) / 2]
    np.testing.assert_allclose(one.generalized[0, :2], [80.0, (g[0] / 2 + g[1] + g[2] + g[3] / 2) / 3])
