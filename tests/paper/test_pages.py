"""The generated pages of this checkout: what commands made, from the files that are here."""

from pathlib import Path

import pytest

from subspan.experiments.multi_session import FIXED
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import create_method
from subspan.paper.pages import PAGES, problems, sections_of, systems_page
from subspan.paper.tables.multi_session import METHODS, our_cells

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_results_are_of_the_files_that_are_here_and_not_edited(name):
    page = (ROOT / "docs" / f"results-{name}.md").read_text("utf-8")
    assert len(sections_of(page)) == (1 if name == "choices" else 2)
    assert problems(name, page, ROOT / "benchmarks") == []


@pytest.mark.parametrize("method", ["subspace", "prototype"])
def test_a_row_of_the_page_is_what_the_code_measures_today(method):
    """Hashes tell of changed inputs, not of changed code: so one file is run again."""
    page = (ROOT / "docs" / "results-multi-session.md").read_text("utf-8")
    fixed = page[page.index("### Another protocol: the fixed split") :]
    line = next(
        line for line in fixed.splitlines() if line.startswith(f"| {METHODS[method]} | recipe paper | no | ours |")
    )
    printed = [float(text) for text in line.strip("| ").split(" | ")[4:]]
    features = FeatureSet.load(ROOT / "benchmarks" / "features" / "paper-fixed.npz").for_linear_scores()
    cells = our_cells(FIXED.run(features, create_method(method), memory=False))
    # An iterate may stop some steps apart on another machine.
    assert printed == pytest.approx([cells[f"session_{session}"].value for session in range(9)], abs=0.3)


def test_the_page_of_systems_is_what_their_docstrings_say():
    assert (ROOT / "docs" / "systems.md").read_text("utf-8") == systems_page(), (
        "run `python -m subspan.paper.pages systems > docs/systems.md`"
    )


@pytest.mark.parametrize(
    ("data", "row", "first", "last", "mean"),
    [  # as the sources print them
        ("CIFAR-100", "| TOPIC 2020 | ResNet-18 | L |", "64.10", "29.37", "42.62"),
        ("CIFAR-100", "| NC-FSCIL 2023 | ResNet-12 | R |", "82.52", "56.11", "67.50"),
        ("CUB-200", "| SAVC 2023 | ResNet-18 | L |", "81.85", "62.50", "69.35"),
    ],
)
def test_published_rows_of_other_sets_stand_there_with_a_blank_row_for_ours(data, row, first, last, mean):
    page = (ROOT / "docs" / "results-multi-session.md").read_text("utf-8").replace("*", "")
    table = page[page.index(f"## {data}, fixed split") :]
    line = next(line for line in table.splitlines() if line.startswith(row))
    cells = line.removeprefix(row).strip(" |").split(" | ")
    assert (cells[0], cells[-2], cells[-1]) == (first, last, mean)
    assert page.count("| any method | your own | ours |") == 2
