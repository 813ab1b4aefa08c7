"""Tables of systems: which published row stands above ours, what is marked, what it costs."""

from dataclasses import replace

import numpy as np
import pytest

from subspan.paper.published import STORED, PublishedRow, published
from subspan.paper.tables.runs import Run
from subspan.paper.tables.systems import cost_picture, systems_table


@pytest.fixture
def run(result):
    def make(name: str, last: float, *, memory: bool = False, **about) -> Run:
        one = result(name, memory, draws=2, sessions=8, splits=[0, 1])
        flat = np.full_like(one.base, last)
        accuracies = replace(one, base=flat, novel_session_mean=np.where(np.isnan(one.novel), np.nan, flat))
        return Run(name, accuracies, **about)

    return make


ROW = PublishedRow("TEEN", (70.0,) * 8 + (52.0,), "M+L", systems=("teen",))


def made_table(runs, rows, *, fixed):
    """The table where the paper quotes these rows, and no other table has any."""
    quoted = replace(published(), without_memory=tuple(rows), with_memory=(), fixed_split=())
    return systems_table(runs, quoted, fixed=fixed, recipe="paper")


def cell(table, headings, key):
    return next(row[key] for row in table.rows if row.headings[:3] == headings)


@pytest.mark.parametrize(("accuracy", "mark"), [(48.9, "‡"), (49.1, "")])
def test_three_points_below_a_published_row_of_the_same_setting_are_marked(run, accuracy, mark):
    made = made_table([run("teen", accuracy)], [ROW], fixed=True)
    assert cell(made, ("teen", "-M", "published"), "session_8").value == 52
    assert cell(made, ("teen", "-M", "ours"), "session_8").mark == mark


def test_a_row_of_another_setting_is_only_quoted(run):
    made = made_table([run("teen", 20.0)], [ROW], fixed=False)
    assert [row.headings[:3] for row in made.rows] == [("teen", "-M", "quoted"), ("teen", "-M", "ours")]
    assert cell(made, ("teen", "-M", "ours"), "session_8").mark == ""


def test_a_published_row_with_memory_stands_above_ours_with_memory_only(run):
    row = replace(ROW, memory=True)
    runs = [run("teen", 20.0), run("teen", 21.0, memory=True)]
    made = made_table(runs, [row], fixed=True)
    assert [row.headings[1:3] for row in made.rows] == [("-M", "ours"), ("+M", "quoted"), ("+M", "ours")]
    assert [cell(made, ("teen", memory, "ours"), "session_8").mark for memory in ("-M", "+M")] == ["", "‡"]


def test_costs_are_those_of_one_split(run):
    trained = run("teen", 50.0, minutes=4.0, place="drawn features on cpu", row=STORED)
    made = made_table([trained], [], fixed=False)
    assert cell(made, ("teen", "-M", "ours, stored"), "training_minutes").value == 4
    assert cell(made, ("teen", "-M", "ours, stored"), "seconds").value == pytest.approx(1.25 / 2)  # two splits
    assert [row.headings[-2:] for row in made.rows] == [("2 splits", "drawn features on cpu")]


def test_the_picture_names_cost_and_accuracy(run):
    picture = cost_picture([run("teen", 50.0, minutes=1.0), run("ncm", 60.0), run("ncm", 99.0, memory=True)])
    assert picture.caption.endswith("Highest: ncm.")
    assert "teen 50.0 % in 60.6 s; ncm 60.0 % in 0.625 s" in picture.alt
    assert picture.png.startswith(b"\x89PNG")
