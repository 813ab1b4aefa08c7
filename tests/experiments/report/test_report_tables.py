"""The table of results: its numbers by hand, its marks by SciPy, and all five forms read back."""

import csv
import dataclasses
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from subspan.experiments.report.render import TEMPLATES, to_console, to_csv, to_latex, to_markdown
from subspan.experiments.report.results_table import results_table
from subspan.experiments.report.tables import Cell, Column, Row, Table

to_html = TEMPLATES.get_template("table.html").render
NASTY = "a&b_<i>|x%{y}[red]"


@pytest.fixture
def by_hand(result):
    """Two sessions, two draws, 6 + 2 + 2 classes: easy numbers."""
    return dataclasses.replace(
        result(draws=2, sessions=2),
        accuracy=np.array([[80.0, 57.0, 41.0], [80.0, 58.0, 43.0]]),
        class_mean=np.array([[79.0, 56.0, 40.0], [79.0, 57.0, 44.0]]),
        base=np.array([[80.0, 60.0, 50.0], [80.0, 62.0, 52.0]]),
        novel=np.array([[np.nan, 40.0, 23.0], [np.nan, 38.0, 24.0]]),
        novel_session_mean=np.array([[np.nan, 40.0, 20.0], [np.nan, 38.0, 22.0]]),
        steps=np.array([[10.0, 20.0], [10.0, 30.0]]),
        # base 80 -> 50 and 80 -> 52, session 1's classes 40 -> 15 and 38 -> 14; session 2 is the last
        forgetting=np.array([[np.nan, 20.0, (30 + 25) / 2], [np.nan, 18.0, (28 + 24) / 2]]),
    )


def cells(table: Table, row: int = 0) -> dict[str, Cell]:
    return {column.key: table.rows[row][column.key] for column in table.columns}


def test_the_numbers_of_a_row_by_hand(by_hand):
    row = cells(results_table([by_hand]))
    assert [row[f"images_{session}"].value for session in range(3)] == [80, 57.5, 42]
    assert (row["images"].value, row["class_mean"].value) == (42, 42)
    assert row["session_0"].value == 80
    assert row["session_1"].value == pytest.approx((6 * 61 + 2 * 39) / 8)
    assert row["weighted"].value == row["session_2"].value
    assert row["session_2"].value == pytest.approx((6 * 51 + 4 * 21) / 10)
    assert row["base"].value == 51
    assert row["novel"].value == 23.5
    draws = [10 / (6 / 50 + 4 / 20), 10 / (6 / 52 + 4 / 22)]
    assert row["harmonic"].value == pytest.approx(np.mean(draws))
    assert row["plain_harmonic"].value == pytest.approx((2 * 50 * 23 / 73 + 2 * 52 * 24 / 76) / 2)
    assert row["average"].value == pytest.approx((80 + 55.5 + 39) / 3)
    assert row["drop"].value == pytest.approx(80 - 39)
    assert row["forgetting"].value == pytest.approx(((30 + 25) / 2 + (28 + 24) / 2) / 2)
    assert row["steps"].value == 35
    assert row["seconds"].value == 1.25
    assert row["base"].half_width == pytest.approx(12.7062 * np.sqrt(2) / np.sqrt(2), rel=1e-5)


def test_intervals_over_several_splits_take_split_means(result):
    several = result(draws=6, splits=[0, 0, 1, 1, 2, 2])
    means = several.base[:, -1].reshape(3, 2).mean(axis=1)
    low, high = stats.t.interval(0.95, 2, loc=means.mean(), scale=stats.sem(means))
    cell = cells(results_table([several]))["base"]
    assert cell.value == pytest.approx(means.mean())
    assert cell.half_width == pytest.approx((high - low) / 2)


def test_marks_are_paired_tests_within_a_memory_setting(result):
    results = [
        result("weak", level=50, seed=1),
        result("strong", level=60, seed=2),
        result("near", level=59.9, seed=3),
        result("with memory", memory=True, level=90, seed=4),
        result("with memory too", memory=True, level=70, seed=5),
    ]
    table = results_table(results)
    assert [row.headings[1] for row in table.rows] == ["no", "no", "no", "yes", "yes"]
    marks = [cells(table, row)["base"].top for row in range(5)]
    strong, near = results[1].base[:, -1], results[2].base[:, -1]
    assert 2 * stats.ttest_rel(strong, near).pvalue > 0.05
    assert marks == [False, True, True, True, False]
    assert not any(cells(table, row)["seconds"].top for row in range(5))


def test_less_drop_is_better(result):
    base = np.linspace(60, 63, 5)[:, None] + np.zeros((5, 4))
    novel = np.where(np.arange(4) == 0, np.nan, base)
    steady = dataclasses.replace(result("steady"), base=base, novel=novel, novel_session_mean=novel)
    falling = dataclasses.replace(
        steady, method="falling", base=base - [[5.0], [5.1], [5.2], [5.3], [5.4]] * np.arange(4)
    )
    table = results_table([falling, steady])
    assert [cells(table, row)["drop"].top for row in range(2)] == [False, True]
    # all start equal: a mark would say nothing
    assert not any(cells(table, row)["session_0"].top for row in range(2))


def test_one_draw_has_no_interval_and_no_mark(result):
    table = results_table([result("a", draws=1), result("b", draws=1, level=30)])
    assert all(np.isnan(cell.half_width) and not cell.top for row in table.rows for cell in row.cells.values())
    assert "One draw: no interval and no test." in table.notes
    assert "±" not in to_markdown(table)


@pytest.mark.parametrize("draws", [2, 4, 5])
def test_below_five_draws_no_number_is_bold_however_far_ahead(result, draws):
    table = results_table([result("far ahead", draws=draws, level=90), result("behind", draws=draws, level=40, seed=1)])
    assert any(cell.top for row in table.rows for cell in row.cells.values()) == (draws == 5)
    assert any(note.startswith("Bold") for note in table.notes) == (draws == 5)
    assert any("fewer than 5" in note for note in table.notes) == (draws < 5)


def test_fewer_splits_than_five_count_as_few_however_many_draws(result):
    splits = [0, 0, 0, 1, 1, 1]
    table = results_table([result(name, draws=6, splits=splits, level=at) for name, at in (("a", 90), ("b", 40))])
    assert not any(cell.top for row in table.rows for cell in row.cells.values())


def test_the_same_number_in_every_draw_has_no_interval_and_a_constant_lead_no_mark(result):
    """Session 0 over draws, or one draw counted as several: no spread, so nothing to test by."""
    ahead = result("ahead")
    behind = dataclasses.replace(result("behind"), base=ahead.base - 0.3, class_mean=np.full((5, 4), 10.0))
    rows = [cells(results_table([ahead, behind]), number) for number in range(2)]
    assert [row["base"].top for row in rows] == [False, False]
    assert [np.isnan(row["class_mean"].half_width) for row in rows] == [False, True]
    assert [row["class_mean"].top for row in rows] == [True, False], "differences that vary are tested"


def test_a_note_of_all_results_stands_once_and_without_a_name(result):
    notes = results_table([result("a", notes=("of all", "of a")), result("b", notes=("of all",))]).notes
    assert [note for note in notes if "of a" in note] == ["of all", "a (without memory): of a"]


def test_results_of_other_splits_are_not_paired(result):
    table = results_table([result("a", splits=[0, 1, 2, 3, 4]), result("b", splits=[0, 0, 1, 1, 2], level=30)])
    assert not any(cell.top for row in table.rows for cell in row.cells.values())


def test_fewer_sessions_leave_cells_empty(result):
    table = results_table([result(sessions=3), result("short", sessions=1)])
    assert np.isnan(cells(table, 1)["session_3"].value)
    assert np.isfinite(cells(table, 1)["session_1"].value)


def test_session_zero_only(result):
    row = cells(results_table([result(sessions=0)]))
    assert np.isnan(row["novel"].value)
    assert row["harmonic"].value == row["session_0"].value
    assert row["drop"].value == 0


def test_no_results_give_an_empty_table():
    assert results_table([]).rows == ()
    assert to_markdown(results_table([])).startswith("**Accuracy (%) after the last session**")


def test_notes_of_a_run_reach_the_table(result):
    assert (
        "semantic (with memory): 1 name unknown"
        in results_table([result("semantic", memory=True, notes=("1 name unknown",))]).notes
    )


def test_csv_keeps_full_precision(result):
    one = result()
    table = results_table([one])
    (line,) = csv.DictReader(io.StringIO(to_csv(table)))
    assert line["method"] == "finetune"
    assert float(line["base"]) == one.base[:, -1].mean()
    assert line["base_top"] == "false"
    assert float(line["session_0_ci95"]) > 0


@pytest.mark.parametrize("sessions", [1, 8, 30])
def test_console_fits_in_120_columns(result, sessions):
    table = results_table(
        [result("prototype:base=means,center=true,scale=16", sessions=sessions), result("b", level=20)]
    )
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(to_console(table))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 120
    assert "…" not in text
    for session in range(sessions + 1):
        assert re.search(rf"\b{session}\b", text)


def test_console_shows_eight_sessions_with_intervals_in_one_table(result):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(to_console(results_table([result("semantic:tau=3", sessions=8)])))
    assert console.export_text().count("Accuracy (%) on all test images") == 1


class Page(HTMLParser):
    """Collects the text of all cells and every tag."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_names_are_escaped_everywhere(result):
    table = results_table([result(NASTY, notes=(NASTY,))], title=NASTY)
    page = Page()
    page.feed(to_html(table=table))
    assert NASTY in page.text
    assert "i" not in page.tags
    assert next(csv.DictReader(io.StringIO(to_csv(table))))["method"] == NASTY
    row = next(line for line in to_markdown(table).splitlines() if line.startswith("| a&b"))
    assert len(re.findall(r"(?<!\\)\|", row)) == len(table.headings) + 4 + 1
    assert r"a\&b\_<i>|x\%\{y\}[red] & no" in to_latex(table)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(to_console(table))
    assert NASTY in console.export_text()


def test_all_forms_show_the_same_number_and_mark():
    table = Table(
        headings=("method",),
        columns=(Column("acc", "acc", "accuracy"), Column("gap", "gap", "difference")),
        rows=(Row(("ours",), {"acc": Cell(44.125, 0.5, True)}),),
    )
    assert "| ours | **44.12±0.50** | – |" in to_markdown(table)  # noqa: RUF001
    assert r"ours & \textbf{44.12} {\scriptsize$\pm$0.50} & -- \\" in to_latex(table)
    assert "<strong>44.12</strong> <small>±0.50</small>" in to_html(table=table)
    assert "ours,44.125,0.5,true,,,false" in to_csv(table)


def test_json_has_the_keys_and_means_of_the_format(by_hand):
    (entry,) = json.loads(json.dumps([by_hand.to_record()], allow_nan=False))
    assert entry["method"] == "finetune"
    assert entry["memory"] is False
    assert entry["steps"] == [10, 25]
    assert entry["base"] == [80, 61, 51]
    assert entry["accuracy"] == [80, 57.5, 42]
    assert entry["class_mean"] == [79, 56.5, 42]
    assert entry["novel"] == [None, 39, 23.5]
    assert entry["novel_session_mean"] == [None, 39, 21]
    assert entry["weighted"] == pytest.approx([80, 55.5, 39])
    assert entry["harmonic"][0] == 80
    assert entry["seconds"] == 1.25
    assert entry["protocol"] == "0123abcd"
    assert entry["per_draw"]["novel"] == [[None, 40, 23], [None, 38, 24]]
    assert entry["per_draw"]["steps"] == [[10, 20], [10, 30]]
    assert set(entry["per_draw"]) >= {"steps", "base", "novel", "weighted", "harmonic"}


def test_json_never_holds_nan(result):
    broken = dataclasses.replace(result(), seconds=float("nan"), base=np.full((5, 4), np.nan))
    text = json.dumps([broken.to_record(), result(sessions=0).to_record()], allow_nan=False)
    assert "NaN" not in text
