"""The published numbers against the paper's LaTeX, and published beside ours against arithmetic by hand."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from subspan.experiments.report.render import to_csv, to_html, to_latex, to_markdown
from subspan.experiments.results import MethodResult
from subspan.paper.document import KEPT, multi_session_section, single_session_section, to_document
from subspan.paper.multi_session_tables import (
    ABLATION,
    METHODS,
    TUNED,
    TrainedNetwork,
    above_sentence,
    differences_table,
    fixed_split_table,
    networks_table,
    random_split_tables,
    session0_ratio,
)
from subspan.paper.published import published

VALUES = Path(__file__).resolve().parents[1] / "data" / "published-values.json"


# ---- published numbers against their sources


@pytest.fixture(scope="module")
def sources():
    """What a program read from the paper's LaTeX and the fact sheet: ``benchmarks/make_published_values.py``."""
    return json.loads(VALUES.read_text("utf-8"))


NAMES = {  # what the LaTeX has in the line of each of our names, most specific first
    "Semantic subspace without R_old": r"Semantic Subspace Reg. no",
    "Fine-tuning without R_old": r"Fine-tuning no",
    "Semantic subspace": "Semantic Subspace",
    "Fine-tuning": "Fine-tuning",
    "Subspace": "Subspace Reg",
    "Linear mapping": "Linear Mapping",
    "Cheraghian et al. 2021": "cheraghian2021semantic",
    "Chen and Lee 2021": "chen2021incremental",
    "Tao et al. 2020": ("tao2020few", "Tao et al."),
}


def our_name(latex_name):
    for ours, theirs in NAMES.items():
        if any(part in latex_name for part in ([theirs] if isinstance(theirs, str) else theirs)):
            return ours
    raise AssertionError(f"no name for {latex_name}")


@pytest.mark.parametrize("name", ["without_memory", "with_memory", "old_penalty"])
def test_session_tables_are_those_of_the_paper(sources, name):
    table = getattr(published(), name)
    read = {our_name(line): numbers for line, numbers in sources["tables"][table.label]}
    assert read == {row.model: list(row.accuracy) for row in table.rows}
    assert {row.memory for row in table.rows} == {name == "with_memory"}


def test_main_table_is_that_of_the_paper(sources):
    read = {our_name(line): numbers for line, numbers in sources["tables"][published().main.label]}
    stored = {name: [None] * 6 for name in read}
    for row in published().main.rows:
        stored[row.model][int(bool(row.memory)) :: 2] = row.accuracy  # -M and +M take turns
    assert stored == read


def test_network_table_is_that_of_the_paper(sources):
    rows = [numbers for _, numbers in sources["tables"]["tb:stdresnet"]]
    assert rows == [[*network.validation, network.mean] for network in published().networks]


def test_fixed_split_rows_are_those_of_the_fact_sheet(sources):
    rows = published().fixed_split.rows
    assert rows
    for row in rows:
        accuracy = [None if math.isnan(value) else value for value in row.accuracy]
        ours = {"network": row.network, "accuracy": accuracy, "average": row.average, "source": row.source}
        assert ours == sources["fixed_split"][row.model]


SINGLE_SESSION_NAMES = {  # in the order of the table's lines
    "Imprinted Networks": "qi2018low",
    "LwoF": "gidaris2018dynamic",
    "Attention Attractor Networks": "ren2018incremental",
    "XtarNet": "yoon2020xtarnet",
    "Fine-tuning": "Fine-tuning",
    "Subspace": "Subspace Regularization",
    "Linear mapping": "Linear Mapping",
    "Semantic subspace (description)": "(w/ description)",
    "Semantic subspace (label)": "(w/ label)",
}


def test_the_single_session_table_is_that_of_the_paper(sources):
    lines = sources["single_session"]
    assert len(lines) == len(published().single_session) == len(SINGLE_SESSION_NAMES)
    for line, row in zip(lines, published().single_session, strict=True):
        assert SINGLE_SESSION_NAMES[row.model] in line["name"]
        for number, key in enumerate([("mini", 1), ("mini", 5), ("tiered", 1), ("tiered", 5)]):
            mine = row.cells[key]
            assert line["cells"][number] == [mine.accuracy, mine.half_width, mine.delta]
            assert line["bold"][number] == mine.bold


def test_every_row_names_a_known_source():
    tables = (getattr(published(), n) for n in ("main", "without_memory", "with_memory", "old_penalty", "fixed_split"))
    rows = [row for table in tables for row in table.rows]
    rows += [*published().networks, *published().single_session]
    assert {row.source for row in rows} == set(published().sources)


# ---- published beside ours


def made_up(method, memory, base, novel=None):
    """A result over as many splits as ``base (splits, 9)`` has rows: 60 base classes, 5 novel ones a session."""
    base = np.asarray(base, dtype=np.float64)
    novel = base.copy() if novel is None else np.asarray(novel, dtype=np.float64)
    novel[:, 0] = np.nan
    return MethodResult(
        method=method,
        memory=memory,
        class_counts=tuple(60 + 5 * session for session in range(9)),
        accuracy=base,
        class_mean=base,
        base=base,
        novel=novel,
        novel_session_mean=novel,
        steps=np.full((len(base), 8), 10.0),
        seconds=1.0,
        protocol="0123abcd",
        splits=np.arange(len(base)),
        novel_at_birth=novel[:, 1:],
        novel_at_end=novel[:, 1:],
    )


@pytest.fixture
def results():
    """Session 0 at 40.185, half of the paper's; then published without memory / 2, over two splits 1 apart."""
    results = []
    for memory in (False, True):
        for method in dict.fromkeys([*METHODS, *ABLATION, *TUNED]):
            row = published().without_memory.of(method, False) or published().old_penalty.of(method, False)
            half = np.array(row.accuracy if row else [50.0] * 9) / 2
            half[0] = 40.185
            results.append(made_up(method, memory, half + np.array([[-0.5], [0.5]])))
    return results


def line(one, *headings):
    (row,) = [row for row in one.table.rows if row.headings == headings]
    return dict(zip((column.key for column in one.table.columns), row.cells, strict=True))


def test_scaling_is_by_the_ratio_of_session_0(results):
    assert session0_ratio(results, published()) == pytest.approx(2.0)
    main, without, _, _, tuned = random_split_tables(results, [1, 2], published())
    ours, scaled = (line(without, "Subspace", whose) for whose in ("ours", "ours, scaled"))
    assert line(without, "Subspace", "published")["session_8"].value == 46.79
    assert ours["session_8"].value == pytest.approx(46.79 / 2)
    assert ours["session_8"].half_width == pytest.approx(12.706 * 0.5, rel=1e-4)  # t of one degree of freedom
    assert scaled["session_8"].value == pytest.approx(46.79)
    assert scaled["session_8"].half_width == pytest.approx(12.706, rel=1e-4)
    assert scaled["drop"].value == pytest.approx(80.37 - 46.79)
    assert line(main, "Subspace", "ours, scaled")["session_8_without_memory"].value == pytest.approx(46.79)
    assert line(tuned, next(iter(TUNED.values())), "ours")["session_8"].value == pytest.approx(25)
    assert not [row for row in tuned.table.rows if row.headings[1] == "quoted"]


def test_cells_further_than_two_points_after_scaling_are_marked_and_listed(results):
    moved = results[0].base.copy()  # fine-tuning without memory
    moved[:, 3] += 1.01  # 2.02 points after scaling
    moved[:, 4] -= 0.99
    changed = [made_up("finetune", False, moved), *results[1:]]
    tables = random_split_tables(changed, [1, 2], published())
    without, with_memory = tables[1:3]
    cells = line(without, "Fine-tuning", "ours, scaled")
    assert [key for key, cell in cells.items() if cell.mark] == ["session_3"]
    listed = differences_table([without]).table.rows
    assert [row.headings for row in listed] == [("All sessions, without memory", "Fine-tuning", "3")]
    theirs, ours, scaled, gap = (cell.value for cell in listed[0].cells)
    assert (theirs, ours, scaled) == pytest.approx((40.45, 40.45 / 2 + 1.01, 42.47))
    assert gap == pytest.approx(2.02)
    # With memory the same numbers of ours stand beside others: fine-tuning's last session is 48.13 there, not 26.54.
    assert line(with_memory, "Fine-tuning", "ours, scaled")["session_8"].mark


def test_a_mark_shows_in_every_form(results):
    with_memory = random_split_tables(results, [1, 2], published())[2].table
    assert "26.54±12.71†" in to_markdown(with_memory)
    assert r"\dag{}" in to_latex(with_memory)
    assert "<sup>†</sup>" in to_html(with_memory)
    header, *lines = to_csv(with_memory).splitlines()
    place = header.split(",").index("session_8_mark")
    marked = [text for text in lines if text.startswith('Fine-tuning,"ours, scaled"')]
    assert [text.replace('"ours, scaled"', "scaled").split(",")[place] for text in marked] == ["†"]


def test_only_quoted_systems_are_marked_as_quoted_and_plots_by_a_star(results):
    main = random_split_tables(results, [1, 2], published())[0]
    quoted = [row.headings[0] for row in main.table.rows if row.headings[1] == "quoted"]
    assert quoted == ["Tao et al. 2020", "Chen and Lee 2021", "Cheraghian et al. 2021*"]
    assert ("Prototypes", "published") not in {row.headings for row in main.table.rows}
    assert any("2 of 10 splits: random-1, random-2" in note for note in main.table.notes)


def test_the_ablation_has_four_methods_of_three_lines(results):
    ablation = random_split_tables(results, [1, 2], published())[3]
    names = [row.headings[0] for row in ablation.table.rows]
    assert names[::3] == [
        "Semantic subspace",
        "Semantic subspace without R_old",
        "Fine-tuning",
        "Fine-tuning without R_old",
    ]
    assert names[::3] == names[1::3] == names[2::3]


def test_networks_show_what_is_recorded_and_nothing_else():
    trained = [TrainedNetwork("paper", 1, 77.0, 76.0), TrainedNetwork("paper", 3, 79.0, 78.0), TrainedNetwork("he", 2)]
    one = networks_table(trained, published())
    ours = line(one, "ResNet-18 of Tian et al.", "validation, ours")
    assert {key: cell.value for key, cell in ours.items() if not math.isnan(cell.value)} == {
        "seed_1": 77.0,
        "seed_3": 79.0,
        "mean": 78.0,
    }
    he = line(one, "ResNet-18 of He et al.", "validation, ours")
    assert all(math.isnan(cell.value) for cell in he.values())


def test_fixed_split_rows_are_set_apart(results):
    one = fixed_split_table({"paper": [results[0]]}, published())
    assert "Another protocol" in one.heading
    ours = line(one, "Fine-tuning", "recipe paper", "no", "ours")
    assert ours["session_0"].value == pytest.approx(40.185)
    orco = line(one, "OrCo", "ResNet-18", "5 images a class", "M only")
    assert (orco["session_8"].value, orco["average"].value) == (58.08, 67.1)
    assert orco["drop"].value == pytest.approx(83.30 - 58.08)
    assert not any(cell.mark for row in one.table.rows for cell in row.cells)


@pytest.mark.parametrize(
    ("perfect", "reached"),
    [
        ([], 0),
        (["finetune"], 8 + 8),
        ([*METHODS, *ABLATION], 4 * (8 + 8) + 2 * 8),  # without R_old: without memory only
    ],
)
def test_cells_at_or_above_the_published_ones_are_counted(results, perfect, reached):
    def answering(one, value):
        return replace(one, base=np.full_like(one.base, value), novel_session_mean=np.full_like(one.novel, value))

    made = [answering(one, 100.0 if one.method in perfect else 1.0) for one in results]
    tables = random_split_tables(made, [1, 2], published())
    assert f"at or above the published accuracy in {reached} of 80 cells" in above_sentence(tables)
    assert above_sentence(tables) in differences_table(tables).table.notes


def test_each_recipe_has_a_section_of_its_own(results):
    tables = random_split_tables(results, [1, 2], published())
    text = to_document(single_session_section("strong"), tables[:1], [], {})
    text = to_document(single_session_section("paper"), tables[:1], [], {}, earlier=text)
    for recipe in ("strong", "paper", "strong 2"):
        text = to_document(multi_session_section(recipe), tables, [], {"recipe": recipe}, earlier=text)
    order = ["# Multi-session\n", "# Multi-session, recipe strong\n", "# Multi-session, recipe strong 2\n"]
    order += ["# Single session\n", "# Single session, recipe strong\n"]
    places = [text.index(heading) for heading in (*order, KEPT)]
    assert places == sorted(places)
    for protocol in ("multi-session", "single-session"):
        assert f"made by `subspan reproduce {protocol} --recipe strong --markdown FILE`" in text
    assert "made by `subspan reproduce multi-session --recipe 'strong 2' --markdown FILE`" in text
    anew = to_document(multi_session_section("strong"), tables, [], {"recipe": "strong, anew"}, earlier=text)
    assert anew == text.replace("- recipe: strong\n", "- recipe: strong, anew\n")


def test_what_was_written_by_hand_stays_in_the_document(results):
    tables = random_split_tables(results, [1, 2], published())
    of_paper = multi_session_section("paper")
    first = to_document(of_paper, tables, ["Splits 3 to 10."], {"command": "subspan reproduce multi-session"})
    assert "- command: `subspan reproduce multi-session`" in first
    assert "- Splits 3 to 10." in first
    again = to_document(of_paper, tables, [], {"date": "later"}, earlier=first + "\nBecause of the crops.\n")
    assert again.endswith(f"{KEPT}\n\nBecause of the crops.\n")
    assert "Splits 3 to 10." not in again
    both = to_document(single_session_section("paper"), tables[:1], ["Images."], {"date": "today"}, earlier=again)
    assert "# Multi-session" in both
    assert "- date: later" in both
    assert both.index("- date: later") < both.index("# Single session") < both.index("- Images.") < both.index(KEPT)
    anew = to_document(of_paper, tables, ["Splits 4 to 10."], {}, earlier=both)
    assert anew.count("# Multi-session\n") == anew.count("# Single session\n") == 1
    assert "- date: later" not in anew
    assert "- Images." in anew
    assert anew.endswith("Because of the crops.\n")
