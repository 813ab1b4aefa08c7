"""The generated pages of the manual: results of each protocol, one section a recipe, and the cards of the systems.

    subspan reproduce multi-session --recipe paper --recipe strong --systems all --markdown results-multi-session.md
    python -m subspan.paper.pages systems > docs/systems.md
    python -m subspan.paper.pages check docs/results-*.md

What opens a page is in ``text/``. A section carries, in a comment, its command, date, device, the SHA-256 of its own
text and that of every feature file, stored result, trained part and packaged setting behind its figures, and of the
published values, so that `problems` can tell without a run whether it is still what was made.
"""

import hashlib
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from subspan.experiments.config import Config
from subspan.experiments.multi_session import RANDOM
from subspan.experiments.report.figures import ReportFigure
from subspan.experiments.report.render import markdown_escape, to_markdown
from subspan.experiments.report.tables import Table
from subspan.experiments.single_session import SingleSession
from subspan.files.atomic import replacing
from subspan.learners.published import MARKS
from subspan.learners.registry import create_method, list_network_systems, list_systems, method_class
from subspan.paper.published import MULTI_SESSION, PROTOCOLS, SINGLE_SESSION, VALUES, other_sets, page_text, published
from subspan.paper.sources import PARTS
from subspan.paper.tables.single_session import DATA, published_table
from subspan.train.recipe import find_recipe

PAPER = "paper"  # the paper's own recipe, whose section comes first
SUMMARY = "main"  # the table that repeats figures of others: for the screen and the report, not for a page
PAGES = (*PROTOCOLS, "choices")  # results-NAME.md
PICTURES = (
    *("accuracy-with-memory", "predictions", "systems-cost"),
    "single-session-mini-weight-space-moving-targets",
)
_PACKAGE = Path(__file__).parents[1]
_SECTION = re.compile(
    r"<!-- section\n(?P<about>\{.*?\n\})\n-->\n\n(?P<text>.*?)(?=\n\n<!-- section\n|\n*\Z)", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class Section:
    """All that is made of the feature files of one recipe under one protocol."""

    name: str  # of the protocol
    recipe: str
    protocol: object
    tables: list[Table]
    figures: list[ReportFigure]
    sources: list[Path]  # feature files, parts and stored results
    findings: Sequence[str] = ()
    missing: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"Subspan: the paper's {self.name} experiments, recipe {self.recipe}"

    @property
    def decimals(self) -> int:
        """On the screen."""
        return 1 if self.name == MULTI_SESSION else 2


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
    tables = [table for table in section.tables if table.name != SUMMARY]
    every = Counter(note for table in tables for note in table.notes)
    runs = [note for note in every if " run as " in note or ": its part was " in note]
    shared = [note for note, count in every.items() if count > 1 and note not in runs]
    said = [note for table in tables for note in table.said]
    found = [sentence for sentence in section.findings if not any(sentence in note for note in said)]
    parts = [f"## Recipe {section.recipe}", *found, *pictures]
    for table in tables:
        own = tuple(note for note in table.notes if note not in (*runs, *shared))
        parts.append(to_markdown(replace(table, notes=own)).replace("## ", "### ", 1).strip())
    parts += ["### Notes", "\n".join(f"- {markdown_escape(note)}" for note in shared)] if shared else []
    parts += [f"`{facts['command']}`, {facts['date']}, {facts['device']}."]
    for title, lines in (("Run with:", runs), ("Not in these tables:", section.missing)):
        parts += [title, "\n".join(["```text", *lines, "```"])] if lines else []
    text = "\n\n".join(parts)
    hashes = {_name_of(path): sha256_of(path) for path in (*section.sources, VALUES)}
    about = {"recipe": section.recipe, **facts, "sources": hashes, "text": _sha256(text.encode())}
    return f"<!-- section\n{json.dumps(about, indent=0, ensure_ascii=False)}\n-->\n\n{text}"


def with_section(page: str, section: str) -> list[str]:
    """The sections of a page with one put in, in place of the one of its recipe; the paper's own recipe first."""
    every = _SECTION.finditer(f"{page.rstrip()}\n\n{section}")
    by_recipe = {json.loads(match["about"])["recipe"]: match[0] for match in every}
    return [by_recipe[recipe] for recipe in sorted(by_recipe, key=lambda name: (name != PAPER, name))]


def _file_of(page: str) -> str:
    return f"results-{page}.md"


def to_page(name: str, sections: Sequence[str]) -> str:
    """The whole page of a protocol; before the sections, published values of data that none of them has."""
    sources = "".join(f"| {word} | {meaning} |\n" for word, meaning in published().sources.items())
    absent = [published_table(data, published()) for data in DATA if name == SINGLE_SESSION]
    absent += other_sets() if name == MULTI_SESSION else []
    tables = [to_markdown(one).strip() for one in absent if not any(one.title in text for text in sections)]
    head = re.sub(r"\{([^{}]+)\}", lambda match: our_setting(match[1]), page_text(f"results-{name}"))
    return "\n\n".join([head + sources.rstrip(), *tables, *sections]) + "\n"


def our_setting(words: str) -> str:
    """What the package has: ``METHOD.OPTION`` by default, or ``METHOD/SHOTS/OPTION`` of a row of the single session.

    >>> our_setting("subspace.gamma"), our_setting("network.cuts"), our_setting("Subspace/5/gamma")
    ('1', '60, 80', '0.03')
    """
    if "/" in words:
        label, shots, option = words.split("/")
        rows = Config.load(f"{SINGLE_SESSION}-mini", SINGLE_SESSION).settings
        record = next(row.create() for row in rows if (row.name, row.shots) == (label, int(shots)))
    else:
        name, option = words.split(".")
        known = {"network": find_recipe(PAPER), "tiered": find_recipe("paper-tiered")}
        known |= {"multi": RANDOM, "single": SingleSession()}
        record = known.get(name) or create_method(name)
    value = getattr(record, option)
    every = value if isinstance(value, tuple) else (value,)
    return ", ".join(f"{one:g}" if isinstance(one, (int, float)) else str(one) for one in every)


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
            package, of_package, rest = source.partition("package/")
            path = folder / source if package or not of_package else _PACKAGE / rest
            if path.suffix == ".npz" and path.parent.name == PARTS and not path.is_file():
                continue  # a part that `make parts` trains again
            if not path.is_file() or sha256_of(path) != known:
                what = "has changed" if path.is_file() else "is gone"
                sentences.append(f"Recipe '{about['recipe']}': {source} {what}; run `{about['command']}` again.")
    return sentences


def _name_of(source: Path) -> str:
    """As a section's comment has it: below the package, or in a folder beside the feature files."""
    path = source.absolute()
    return f"package/{path.relative_to(_PACKAGE).as_posix()}" if _PACKAGE in path.parents else "/".join(path.parts[-2:])


def systems_page() -> str:
    """What every published system is: a table of all, then the docstring of each."""
    cards: dict[str, Any] = {name: method_class(name) for name in (*list_systems(), *list_network_systems())}
    marks = ["| mark | meaning |", "|---|---|", *(f"| {mark} | {meaning} |" for mark, meaning in MARKS.items())]
    table = ["| system | what it does | reference | marks |", "|---|---|---|---|"]
    table += [f"| [`{n}`](#{n}) | {c.summary} | {c.reference} | {c.marks} |" for n, c in cards.items()]
    texts = [f"## `{name}` {{ #{name} }}\n\n{inspect.getdoc(card) or ''}" for name, card in cards.items()]
    return "\n\n".join([page_text("systems").rstrip(), "\n".join(marks), "\n".join(table), *texts]) + "\n"


def sha256_of(path: Path) -> str:
    """Of a file's bytes."""
    return _sha256(path.read_bytes())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(words: Sequence[str]) -> int:
    """Print the page of systems, or what is wrong with pages of results."""
    if list(words) == ["systems"]:
        sys.stdout.write(systems_page())
        return 0
    pages = {path: path.stem.removeprefix("results-") for path in map(Path, words[1:])}
    if words[:1] != ["check"] or not set(pages.values()) <= set(PAGES):
        sys.stderr.write(f"usage: python -m subspan.paper.pages systems | check {' '.join(map(_file_of, PAGES))}\n")
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
