"""The generated pages of this checkout: what commands made, from the files that are here."""

from pathlib import Path

import pytest

from subspan.paper.pages import problems, sections_of, systems_page
from subspan.paper.published import PROTOCOLS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_results_are_of_the_files_that_are_here_and_not_edited(name):
    page = (ROOT / "docs" / f"results-{name}.md").read_text("utf-8")
    assert len(sections_of(page)) == 2
    assert problems(name, page, ROOT / "benchmarks") == []


def test_the_page_of_systems_is_what_their_docstrings_say():
    assert (ROOT / "docs" / "systems.md").read_text("utf-8") == systems_page(), (
        "run `python -m subspan.paper.pages systems > docs/systems.md`"
    )
