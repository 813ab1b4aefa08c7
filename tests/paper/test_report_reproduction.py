"""The published numbers against the paper's LaTeX, and published beside ours against arithmetic by hand."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from subspan.experiments.report.render import MISSING, TEMPLATES, to_csv, to_latex, to_markdown
from subspan.experiments.results import MethodResult
from subspan.paper.pages import Section, problems, sha256_of, to_page, to_text, with_section
from subspan.paper.published import VALUES as PUBLISHED_VALUES
from subspan.paper.published import published
from subspan.paper.tables.multi_session import (
    ABLATION,
    METHODS,
    TUNED,
    all_cells,
    fixed_split_table,
    networks_table,
    random_split_tables,
    reached_sentence,
    session0_ratio,
)

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


@pytest.mark.parametrize(
    ("name", "label"), [("without_memory", "tb:appnomem"), ("with_memory", "tb:appmem"), ("old_penalty", "tb:rold")]
)
def test_session_tables_are_those_of_the_paper(sources, name, label):
    rows = getattr(published(), name)
    read = {our_name(line): numbers for line, numbers in sources["tables"][label]}
    assert read == {row.model: list(row.accuracy) for row in rows}
    assert {row.memory for row in rows} == {name == "with_memory"}


def test_main_table_is_that_of_the_paper(sources):
    read = {our_name(line): numbers for line, numbers in sources["tables"]["tb:mfscil_tao"]}
    stored = {name: [None] * 6 for name in read}
    for row in published().main:
        stored[row.model][int(bool(row.memory)) :: 2] = row.accuracy  # -M and +M take turns
    assert stored == read


def test_network_table_is_that_of_the_paper(sources):
    rows = [numbers for _, numbers in sources["tables"]["tb:stdresnet"]]
    assert rows == [[*network.validation, network.mean] for network in published().networks]


def test_fixed_split_rows_are_those_of_the_fact_sheet(sources):
    rows = published().fixed_split
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
        for number, (data, shots) in enumerate([("mini", 1), ("mini", 5), ("tiered", 1), ("tiered", 5)]):
            accuracy, delta = (row.cells[data][f"{key}_{shots}_shot"] for key in ("accuracy", "delta"))
            assert line["cells"][number] == [accuracy.value, accuracy.half_width, delta.value]
            assert line["bold"][number] == accuracy.top


def test_tiered_values_stand_there_with_blanks_where_ours_would_be(sources):
    page = to_page("single-session", [])
    table = page[page.index("## Single session, tieredImageNet") :].replace("*", "")
    halves = table.split("1-shot")[1].split("5-shot")
    for number, half in zip((2, 3), halves, strict=True):
        rows = [line.strip("| ").split(" | ") for line in half.splitlines() if line.startswith("| ")]
        printed = {row[0]: row[2:] for row in rows if row[1] in ("published", "quoted")}
        for line, model in zip(sources["single_session"], SINGLE_SESSION_NAMES, strict=True):
            accuracy, half_width, delta = line["cells"][number]
            assert printed[model] == [f"{accuracy:.2f}±{half_width:.2f}", f"{delta:.2f}"]
    assert table.count(f"| ours | {MISSING} | {MISSING} |") == 2 * len(SINGLE_SESSION_NAMES)
    assert "Ours are blank: the images of tieredImageNet cannot be had here" in table


def test_every_row_names_a_known_source():
    tables = (getattr(published(), n) for n in ("main", "without_memory", "with_memory", "old_penalty", "fixed_split"))
    rows = [row for table in tables for row in table]
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
        forgetting=np.full_like(novel, np.nan),
    )


@pytest.fixture
def results():
    """Session 0 at 40.185, half of the paper's; then published without memory / 2, over two splits 1 apart."""
    results = []
    for memory in (False, True):
        for method in dict.fromkeys([*METHODS, *ABLATION, *TUNED]):
            row = published().row(method, False, published().without_memory, published().old_penalty)
            half = np.array(row.accuracy if row else [50.0] * 9) / 2
            half[0] = 40.185
            results.append(made_up(method, memory, half + np.array([[-0.5], [0.5]])))
    return results


def line(one, *headings):
    (row,) = [row for row in one.rows if row.headings == headings]
    return {column.key: row[column.key] for column in one.columns}


def test_scaling_is_by_the_ratio_of_session_0(results):
    assert session0_ratio(results, published()) == pytest.approx(2.0)
    main, without, _ = random_split_tables(results, [1, 2], published())
    ours, scaled = (line(without, "Subspace", whose) for whose in ("ours", "ours, scaled"))
    assert line(without, "Subspace", "published")["session_8"].value == 46.79
    assert ours["session_8"].value == pytest.approx(46.79 / 2)
    assert ours["session_8"].half_width == pytest.approx(12.706 * 0.5, rel=1e-4)  # t of one degree of freedom
    assert scaled["session_8"].value == pytest.approx(46.79)
    assert scaled["session_8"].half_width == pytest.approx(12.706, rel=1e-4)
    assert scaled["drop"].value == pytest.approx(80.37 - 46.79)
    assert line(main, "Subspace", "ours, scaled")["session_8_without_memory"].value == pytest.approx(46.79)
    assert line(without, next(iter(TUNED.values())), "ours")["session_8"].value == pytest.approx(25)


def test_cells_further_than_two_points_after_scaling_are_marked_and_counted(results):
    moved = results[0].base.copy()  # fine-tuning without memory
    moved[:, 3] += 1.01  # 2.02 points after scaling
    moved[:, 4] -= 0.99
    changed = [made_up("finetune", False, moved), *results[1:]]
    tables = random_split_tables(changed, [1, 2], published())
    without, with_memory = tables[1:3]
    cells = line(without, "Fine-tuning", "ours, scaled")
    assert [key for key, cell in cells.items() if cell.mark] == ["session_3"]
    assert cells["session_3"].value == pytest.approx(42.47)
    assert "scaled, 1 are further than 2 points from it" in reached_sentence([without])
    # With memory the same numbers of ours stand beside others: fine-tuning's last session is 48.13 there, not 26.54.
    assert line(with_memory, "Fine-tuning", "ours, scaled")["session_8"].mark


def test_what_a_paired_test_does_not_separate_from_the_best_is_bold(results):
    first = results[0].base.mean(0) + np.array([[-1.0], [-0.5], [0.0], [0.5], [1.0]])
    same = made_up("same", False, first)
    lead = np.array([[0.3], [0.1], [-0.2], [0.3], [0.1]])
    near, far = (made_up(name, False, first + lead - by) for name, by in (("best", 0), ("far", 20)))
    short = made_up("short", False, first[:1] + 50)  # on one split: no pairs
    for one, top in zip([near, same, far, short], all_cells([near, same, far, short]), strict=True):
        expected = one.method in ("best", "same")
        assert [top[f"session_{session}"].top for session in range(9)] == [False] + 8 * [expected], one.method


def test_a_mark_shows_in_every_form(results):
    with_memory = random_split_tables(results, [1, 2], published())[2]
    assert "26.54±12.71†" in to_markdown(with_memory)
    assert r"\dag{}" in to_latex(with_memory)
    assert "<sup>†</sup>" in TEMPLATES.get_template("table.html").render(table=with_memory)
    header, *lines = to_csv(with_memory).splitlines()
    place = header.split(",").index("session_8_mark")
    marked = [text for text in lines if text.startswith('Fine-tuning,"ours, scaled"')]
    assert [text.replace('"ours, scaled"', "scaled").split(",")[place] for text in marked] == ["†"]


def test_only_quoted_systems_are_marked_as_quoted_and_plots_by_a_star(results):
    main = random_split_tables(results, [1, 2], published())[0]
    quoted = [row.headings[0] for row in main.rows if row.headings[1] == "quoted"]
    assert quoted == ["Tao et al. 2020", "Chen and Lee 2021", "Cheraghian et al. 2021*"]
    assert ("Prototypes", "published") not in {row.headings for row in main.rows}
    assert any("2 of 10 splits: random-1, random-2" in note for note in main.notes)


def test_rows_without_the_old_penalty_stand_beside_published_ones(results):
    without, with_memory = random_split_tables(results, [1, 2], published())[1:]
    names = [row.headings for row in without.rows]
    for model in ("Semantic subspace without R_old", "Fine-tuning without R_old"):
        assert [whose for name, whose in names if name == model] == ["published", "ours", "ours, scaled"]
        assert model not in {row.headings[0] for row in with_memory.rows}
    assert line(without, "Fine-tuning without R_old", "published")["session_8"].value == 20.39


def test_networks_show_what_is_recorded_and_nothing_else():
    of_paper = {1: {"validation": 77.0, "test": 76.0}, 3: {"validation": 79.0, "test": 78.0}}
    trained = {"paper": of_paper, "he": {2: {}}}
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
    one = fixed_split_table([results[0]], "paper", published())
    assert "Another protocol" in one.title
    ours = line(one, "Fine-tuning", "recipe paper", "no", "ours")
    assert ours["session_0"].value == pytest.approx(40.185)
    orco = line(one, "OrCo", "ResNet-18", "5 images a class", "M only")
    assert (orco["session_8"].value, orco["average"].value) == (58.08, 67.1)
    assert orco["drop"].value == pytest.approx(83.30 - 58.08)
    assert not any(cell.mark for row in one.rows for cell in row.cells.values())


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
    assert f"at or above the published accuracy in {reached} of 80 cells" in reached_sentence(tables)


# ---- pages


def page_of(tables, recipes, sources=(), **facts):
    said = {"command": "subspan reproduce multi-session", "date": "today", "device": "cpu", **facts}
    page = ""
    for recipe in recipes:
        made = Section(
            name="multi-session",
            recipe=recipe,
            protocol=None,
            tables=tables,
            figures=[],
            findings=["Found."],
            missing=["No split 3."],
            sources=list(sources),
        )
        page = to_page("multi-session", with_section(page, to_text(made, said)))
    return page


def test_sections_of_recipes_stand_in_one_order_and_are_made_anew_alone(results):
    tables = random_split_tables(results, [1, 2], published())[1:]
    page = page_of(tables, ["strong 2", "paper", "strong"])
    places = [page.index(f"\n## Recipe {recipe}\n") for recipe in ("paper", "strong", "strong 2")]
    assert places == sorted(places)
    assert page_of(tables, ["paper", "strong", "strong 2"]) == page
    assert page_of(tables, ["strong 2", "paper", "strong", "strong"]) == page
    assert page.count("is ours times 80.37") == 3, "what several tables say stands once in a section"
    assert page.count("Akyürek") == 1, "what all sections say stands once on the page"


def test_a_page_tells_when_it_was_edited_and_when_a_source_changed(results, tmp_path):
    source = tmp_path / "features" / "paper-random-1.npz"
    source.parent.mkdir()
    source.write_bytes(b"features")
    page = page_of(random_split_tables(results, [1, 2], published())[1:], ["paper"], [source])
    assert problems("multi-session", page, tmp_path) == []
    assert problems("multi-session", page.replace("46.79", "46.97"), tmp_path) == [
        "Recipe 'paper': the section was edited by hand."
    ]
    for edited in (f"{page}\nBy hand.\n", page.replace("Sixty base", "Sixteen base")):
        assert problems("multi-session", edited, tmp_path)
    source.write_bytes(b"others")
    (changed,) = problems("multi-session", page, tmp_path)
    assert "features/paper-random-1.npz has changed; run `subspan reproduce multi-session` again" in changed
    source.write_bytes(b"features")
    digest = sha256_of(PUBLISHED_VALUES)
    assert digest in page
    (changed,) = problems("multi-session", page.replace(digest, "0" * 64), tmp_path)
    assert "package/paper/published.json has changed" in changed
    source.unlink()
    (gone,) = problems("multi-session", page, tmp_path)
    assert "features/paper-random-1.npz is gone" in gone
