"""The HTML page: self-contained, escaped, complete, replaced in one step."""

import base64
import os
from html.parser import HTMLParser

import pytest

from subspan.experiments.report.html import write_report

NASTY = '<script>alert("x")</script> & "quotes"'
VOID = {"meta", "img", "wbr", "br"}


class Page(HTMLParser):
    """Tags with attributes, text, and whether every tag is closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def written(tmp_path_factory, result, weight_space):
    results = [
        result("finetune"),
        result("subspace", level=70, weight_space=weight_space(True), seed=1),
        result("semantic", level=65, weight_space=weight_space(False), seed=2),
        result("finetune", memory=True),
    ]
    page = write_report(
        tmp_path_factory.mktemp("new") / "report", results, title="Bench", facts={"command": "subspan bench"}
    )
    return page, Page(page.read_text())


def test_nothing_comes_from_outside(written):
    _, page = written
    assert {"link", "script", "iframe"}.isdisjoint(name for name, _ in page.tags)
    for _, attributes in page.tags:
        assert "src" not in attributes or attributes["src"].startswith("data:image/png;base64,")
        assert "//" not in (attributes.get("href") or "")
    assert "url(" not in "".join(page.text)
    assert page.open == []


def test_pictures_are_inline_have_alt_texts_and_lie_beside(written):
    path, page = written
    images = page.all("img")
    assert len(images) == 5
    assert all(len(image["alt"]) > 20 for image in images)
    inline = {base64.b64decode(image["src"].partition(",")[2]) for image in images}
    assert inline == {file.read_bytes() for file in path.parent.glob("*.png")}


def test_headings_findings_facts_and_tables(written):
    path, page = written
    names = [name for name, _ in page.tags]
    assert names.count("h1") == 1
    assert [text for text in page.text if text in ("Results", "Figures", "How this was made")]
    text = " ".join(page.text)
    assert "the best of 3 methods is subspace" in text
    assert "With memory, finetune has" in text
    assert "subspan bench" in text
    assert "0123abcd" in text  # the protocol hash, from the results
    assert page.all("html") == [{"lang": "en"}]
    assert {file.name for file in path.parent.iterdir()} >= {"report.html", "table.csv", "table.md", "table.tex"}


def test_names_titles_facts_and_notes_are_escaped(tmp_path, result):
    results = [result(NASTY, notes=(NASTY,), confusion=False)]
    page = Page(write_report(tmp_path, results, title=NASTY, facts={NASTY: NASTY}).read_text())
    assert "script" not in [name for name, _ in page.tags]
    assert sum(NASTY in text for text in page.text) >= 4
    assert page.open == []


@pytest.mark.parametrize(
    "options", [{"sessions": 0}, {"sessions": 1, "draws": 1}, {"confusion": False, "memory": True}]
)
def test_one_method_of_any_kind(tmp_path, result, options):
    path = write_report(tmp_path, [result(**options)], title="one", facts={})
    assert Page(path.read_text()).open == []


def test_no_results_at_all(tmp_path):
    page = Page(write_report(tmp_path, [], title="nothing", facts={"date": "today"}).read_text())
    assert page.all("img") == []


def test_a_failed_write_leaves_the_old_report(tmp_path, result, monkeypatch):
    path = write_report(tmp_path, [result(confusion=False)], title="old", facts={})
    before = path.read_bytes()

    def fail(source, target):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_report(tmp_path, [result(confusion=False, level=20)], title="new", facts={})
    assert path.read_bytes() == before
    assert not list(tmp_path.glob(".tmp-*"))
