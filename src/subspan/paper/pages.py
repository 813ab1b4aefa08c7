"""The generated pages of the manual: results of each protocol, one section a recipe, and the cards of the systems.

    subspan reproduce multi-session --recipe paper --recipe strong --systems all --markdown results-multi-session.md
    python -m subspan.paper.pages systems > docs/systems.md
    python -m subspan.paper.pages check docs/results-*.md

What opens a page is in ``text/``. A section carries, in a comment, its command, date, device, the SHA-256 of its own
text and that of every feature file and stored result behind its figures, so that `problems` can tell without a run
whether it is still what was made.
"""

import hashlib
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from subspan.experiments.report.figures import ReportFigure
from subspan.experiments.report.render import markdown_escape, to_markdown
from subspan.experiments.report.tables import Table
from subspan.files.atomic import replacing
from subspan.learners.published import MARKS
from subspan.learners.registry import list_network_systems, list_systems
from subspan.paper.published import PROTOCOLS, page_text, published
from subspan.paper.systems import system_class

PAPER = "paper"  # the paper's own recipe, whose section comes first
PICTURES = ("accuracy-with-memory", "systems-cost", "single-session-mini-weight-space-moving-targets")
_SECTION = re.compile(
    r"<!-- section\n(?P<about>\{.*?\n\})\n-->\n\n(?P<text>.*?)(?=\n\n<!-- section\n|\n*\Z)", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class Section:
    """All that is made of the feature files of one recipe under one protocol."""

    name: str  # of the protocol
    recipe: str
    title: str
    protocol: object
    tables: list[Table]
    figures: list[ReportFigure]
    findings: list[str]
    missing: list[str]
    facts: dict[str, str]
    sources: list[Path]  # feature files and stored results
    summary: list[Table]  # for the screen and the report: it repeats figures of the tables
    decimals: int = 1  # on the screen


def write_section(path: Path, section: Section, facts: Mapping[str, str]) -> None:
    """Write the page with this section anew, its pictures beside it; what other recipes have there stays."""
    earlier = path.read_text("utf-8") if path.is_file() else ""
    shown = []
    for picture in (one for one in section.figures if one.name in PICTURES):
        place = f"images/{path.stem}-{section.recipe}-{picture.name}.png"
        shown.append(f"![{picture.title}]({place})")
        (path.parent / place).parent.mkdir(parents=True, exist_ok=True)
        with replacing(path.parent / place) as file:
            file.write_bytes(picture.png)
    with replacing(path) as file:
        file.write_text(to_page(section.name, with_section(earlier, to_text(section, facts, shown))), "utf-8")


def to_text(section: Section, facts: Mapping[str, str], pictures: Sequence[str] = ()) -> str:
    """A section as markdown, below the comment that says what it was made from."""
    every = Counter(note for table in section.tables for note in table.notes)
    runs = [note for note in every if " run as " in note or ": its part was " in note]
    shared = [note for note, count in every.items() if count > 1 and note not in runs]
    said = [note for table in section.tables for note in table.said]
    found = [sentence for sentence in section.findings if not any(sentence in note for note in said)]
    parts = [f"## Recipe {section.recipe}", *found, *pictures]
    for table in section.tables:
        own = tuple(note for note in table.notes if note not in (*runs, *shared))
        parts.append(to_markdown(replace(table, notes=own, legend=())).replace("## ", "### ", 1).strip())
    parts += ["### Notes", "\n".join(f"- {markdown_escape(note)}" for note in shared)] if shared else []
    parts += [f"`{facts['command']}`, {facts['date']}, {facts['device']}."]
    for title, lines in (("Run with:", runs), ("Not in these tables:", section.missing)):
        parts += [title, "\n".join(["```text", *lines, "```"])] if lines else []
    text = "\n\n".join(parts)
    hashes = {f"{path.absolute().parent.name}/{path.name}": _sha256(path.read_bytes()) for path in section.sources}
    about = {"recipe": section.recipe, **facts, "sources": hashes, "text": _sha256(text.encode())}
    return f"<!-- section\n{json.dumps(about, indent=0, ensure_ascii=False)}\n-->\n\n{text}"


def with_section(page: str, section: str) -> list[str]:
    """The sections of a page with one put in, in place of the one of its recipe; the paper's own recipe first."""
    every = _SECTION.finditer(f"{page.rstrip()}\n\n{section}")
    by_recipe = {json.loads(match["about"])["recipe"]: match[0] for match in every}
    return [by_recipe[recipe] for recipe in sorted(by_recipe, key=lambda name: (name != PAPER, name))]


def to_page(name: str, sections: Sequence[str]) -> str:
    """The whole page of a protocol."""
    sources = "".join(f"| {word} | {meaning} |\n" for word, meaning in published().sources.items())
    return "\n\n".join([page_text(f"results-{name}") + sources.rstrip(), *sections]) + "\n"


def sections_of(page: str) -> list[str]:
    """The sections of a page, comments included."""
    return [match[0] for match in _SECTION.finditer(page)]


def problems(name: str, page: str, folder: Path) -> list[str]:
    """Why a page is no longer what was made, in sentences; ``folder`` holds the folders of features and systems."""
    edited = page != to_page(name, sections_of(page))
    sentences = ["The page was edited by hand outside its sections."] if edited else []
    for match in _SECTION.finditer(page):
        about = json.loads(match["about"])
        if about["text"] != _sha256(match["text"].encode()):
            sentences.append(f"Recipe '{about['recipe']}': the section was edited by hand.")
        for source, known in about["sources"].items():
            path = folder / source
            if not path.is_file() or _sha256(path.read_bytes()) != known:
                what = "has changed" if path.is_file() else "is gone"
                sentences.append(f"Recipe '{about['recipe']}': {source} {what}; run `{about['command']}` again.")
    return sentences


def systems_page() -> str:
    """What every published system is: a table of all, then the docstring of each."""
    cards = {name: system_class(name) for name in (*list_systems(), *list_network_systems())}
    marks = ["| mark | meaning |", "|---|---|", *(f"| {mark} | {meaning} |" for mark, meaning in MARKS.items())]
    table = ["| system | what it does | reference | marks |", "|---|---|---|---|"]
    table += [f"| [`{n}`](#{n}) | {c.summary} | {c.reference} | {c.marks} |" for n, c in cards.items()]
    texts = [f"## `{name}` {{ #{name} }}\n\n{inspect.getdoc(card) or ''}" for name, card in cards.items()]
    return "\n\n".join([page_text("systems").rstrip(), "\n".join(marks), "\n".join(table), *texts]) + "\n"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(words: Sequence[str]) -> int:
    """Print the page of systems, or what is wrong with pages of results."""
    if list(words) == ["systems"]:
        sys.stdout.write(systems_page())
        return 0
    pages = {path: path.stem.removeprefix("results-") for path in map(Path, words[1:])}
    if words[:1] != ["check"] or not set(pages.values()) <= set(PROTOCOLS):
        sys.stderr.write(
            "usage: python -m subspan.paper.pages systems | check results-multi-session.md results-single-session.md\n"
        )
        return 2
    wrong = [
        f"{path}: {sentence}\n"
        for path, name in pages.items()
        for sentence in problems(name, path.read_text("utf-8"), path.absolute().parents[1] / "benchmarks")
    ]
    sys.stdout.write("".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
