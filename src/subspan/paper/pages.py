"""The generated pages of the manual: results of each protocol, one section a recipe, and the cards of the systems.

    subspan reproduce multi-session --recipe paper --recipe strong --systems all --markdown results-multi-session.md
    python -m subspan.paper.pages systems > docs/systems.md
    python -m subspan.paper.pages check docs/results-*.md

A section carries, in a comment, its command, date, device, the SHA-256 of its own text and that of every feature file
and stored result behind its figures, so that `problems` can tell without a run whether it is still what was made.
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

from subspan.experiments.report.figures import ReportFigure
from subspan.experiments.report.html import ReportTable
from subspan.experiments.report.render import markdown_escape, to_markdown
from subspan.files.atomic import replacing
from subspan.learners.published import MARKS
from subspan.learners.registry import list_network_systems, list_systems
from subspan.paper.published import published
from subspan.paper.systems import system_class

MULTI_SESSION, SINGLE_SESSION = "multi-session", "single-session"
PAPER = "paper"  # the paper's own recipe, whose section comes first
PICTURES = ("accuracy-with-memory", "systems-cost", "single-session-mini-weight-space-moving-targets")
OPENINGS: Mapping[str, str] = {
    MULTI_SESSION: """# Results: multi-session

Sixty base classes of miniImageNet, then five new classes with five images each, eight times: published values beside
ours, in percent, on networks of our own (a recipe is how these were trained). [What differs](differences.md) says why.
*-M* is without, *+M* with one stored image a class.""",
    SINGLE_SESSION: """# Results: single session

An episode starts from session 0, learns 5 novel classes from 1 or 5 images each, without memory, and is asked about 25
base and 25 novel images. Means of 2000 episodes, in percent; [what differs](differences.md) says why.""",
}
LEGEND: Mapping[str, str] = {  # beside the marks of sources; notes of tables that say the same are left out
    "published": "printed by the paper, or by a system's own one; with a network of theirs",
    "quoted": "another system as the paper quotes it, with a network of its own; not run by us; *: read off a plot",
    "ours": "measured here; ± is half of the 95 % interval",
    "ours, stored": "measured once, with images; kept as a file",
}
LEGENDS: Mapping[str, Mapping[str, str]] = {
    MULTI_SESSION: LEGEND
    | {
        "ours, scaled": "ours times the paper's session-0 accuracy over ours; †: further than 2 points from published",
        "average, drop": "over all sessions; of published rows computed from these",
        "‡": "on the fixed split, a last session more than 3 points below the published one",
        "p": "of a paired t-test over splits, times the number of comparisons; the bar is 0.01",
        "min, sec": "minutes of training a system's own part; seconds of all sessions of a split, scoring included",
    },
    SINGLE_SESSION: LEGEND
    | {
        "bold": "ours: not below the best of its column (paired t-test, p < 0.05 after Bonferroni); else as printed",
        "Delta": "accuracy among all classes less that among a half's own, mean of both; always wrong has the best, 0",
        "min, sec": "minutes of training a system's own part; seconds of all episodes in all, scoring included",
        "beta": "of the base rows; as in the multi-session code, R_old is a norm and support images have five copies",
        "°": "a setting not in the paper's appendix, left at the value of the multi-session experiments",
    },
}
SAID_ONCE = (
    "Sources: ",
    "'published'",
    "'quoted'",
    "Average and drop",
    "‡: ",
    "p: ",
    "Mean over",
    "Delta: ",
    "Beyond the base",
    "beta ",
)
SYSTEMS = """# Systems

Published systems, run on the same frozen features as every method. Any of them runs by name; `subspan methods NAME`
lists its options. What a system trains on the base classes first is a file, made from a feature file, or from a run and
its images; a system that moves the network needs images, and its result is stored:

    subspan bench split2.safetensors --method teen --method fecam:shrink=10
    subspan train --system lwof split2.safetensors --set steps=4000 --out parts/lwof-2.npz
    subspan bench split2.safetensors --method lwof:trained=parts
    subspan train --system topic --run runs/random-1 --data mini-imagenet --out topic-random-1.json

A part belongs to the base rows it was trained with; for others it is refused. Their figures are in the
[results](results-multi-session.md)."""

_SECTION = re.compile(
    r"<!-- section\n(?P<about>\{.*?\n\})\n-->\n\n(?P<text>.*?)(?=\n\n<!-- section\n|\n*\Z)", re.DOTALL
)


@dataclass(frozen=True)
class Section:
    """All that is made of the feature files of one recipe under one protocol."""

    name: str  # of the protocol
    recipe: str
    title: str
    protocol: object
    summary: list[ReportTable]  # for the screen and the report: it repeats figures of the tables
    tables: list[ReportTable]
    figures: list[ReportFigure]
    findings: list[str]
    missing: list[str]
    facts: dict[str, str]
    sources: list[Path]  # feature files and stored results
    decimals: int = field(default=1, kw_only=True)  # on the screen


def write_section(path: Path, section: Section, facts: Mapping[str, str]) -> None:
    """Write the page with this section anew, its pictures beside it; what other recipes have there stays."""
    earlier = path.read_text("utf-8") if path.is_file() else ""
    pictures = {f"images/{path.stem}-{section.recipe}-{one.name}.png": one for one in section.figures}
    pictures = {place: one for place, one in pictures.items() if one.name in PICTURES}
    for place, picture in pictures.items():
        (path.parent / place).parent.mkdir(parents=True, exist_ok=True)
        with replacing(path.parent / place) as file:
            file.write_bytes(picture.png)
    shown = [f"![{one.title}]({place})" for place, one in pictures.items()]
    with replacing(path) as file:
        file.write_text(to_page(section.name, with_section(earlier, to_text(section, facts, shown))), "utf-8")


def to_text(section: Section, facts: Mapping[str, str], pictures: Sequence[str] = ()) -> str:
    """A section as markdown, below the comment that says what it was made from."""
    every = Counter(note for one in section.tables for note in one.table.notes)
    runs = [note for note in every if " run as " in note or ": its part was " in note]
    shared = [note for note, count in every.items() if count > 1 and note not in runs]
    found = [sentence for sentence in section.findings if not any(sentence in note for note in every)]
    parts = [f"## Recipe {section.recipe}", *found, *pictures]
    for one in section.tables:
        own = [note for note in one.table.notes if not note.startswith(SAID_ONCE) and note not in (*runs, *shared)]
        parts.append(to_markdown(replace(one.table, notes=tuple(own))).replace("## ", "### ", 1).strip())
    notes = [markdown_escape(note) for note in shared if not note.startswith(SAID_ONCE)]
    parts += ["### Notes", "\n".join(f"- {note}" for note in notes)] if notes else []
    parts += [f"`{facts['command']}`, {facts['date']}, {facts['device']}."]
    for title, lines in (("Run with:", runs), ("Not in these tables:", section.missing)):
        parts += [title, "\n".join(["```text", *lines, "```"])] if lines else []
    return with_about(section.recipe, facts, section.sources, "\n\n".join(parts))


def with_about(recipe: str, facts: Mapping[str, str], sources: Sequence[Path], text: str) -> str:
    """The text of a section below its comment."""
    hashes = {f"{path.absolute().parent.name}/{path.name}": _sha256(path.read_bytes()) for path in sources}
    about = {"recipe": recipe, **facts, "sources": hashes, "text": _sha256(text.encode())}
    return f"<!-- section\n{json.dumps(about, indent=0, ensure_ascii=False)}\n-->\n\n{text}"


def with_section(page: str, section: str) -> list[str]:
    """The sections of a page with one put in, in place of the one of its recipe; the paper's own recipe first."""
    by_recipe = {_about(one)["recipe"]: one for one in (*sections_of(page), section)}
    return [by_recipe[recipe] for recipe in sorted(by_recipe, key=lambda name: (name != PAPER, name))]


def to_page(name: str, sections: Sequence[str]) -> str:
    """The whole page of a protocol."""
    words = {**LEGENDS[name], **published().sources}
    legend = ["| word | meaning |", "|---|---|", *(f"| {word} | {words[word]} |" for word in words)]
    return "\n\n".join([OPENINGS[name], "\n".join(legend), *sections]) + "\n"


def sections_of(page: str) -> list[str]:
    """The sections of a page, comments included."""
    return [match[0] for match in _SECTION.finditer(page)]


def _about(section: str) -> dict[str, Any]:
    match = _SECTION.match(section)
    assert match is not None
    return json.loads(match["about"])


def problems(name: str, page: str, folder: Path) -> list[str]:
    """Why a page is no longer what was made, in sentences; ``folder`` holds the folders of features and systems."""
    found = sections_of(page)
    sentences = [] if page == to_page(name, found) else ["The page was edited by hand outside its sections."]
    for match in map(_SECTION.match, found):
        assert match is not None
        about = json.loads(match["about"])
        if about["text"] != _sha256(match["text"].encode()):
            sentences.append(f"Recipe '{about['recipe']}': the section was edited by hand.")
        for source, known in about["sources"].items():
            path = folder / source
            if not path.is_file() or _sha256(path.read_bytes()) != known:
                what = "has changed" if path.is_file() else "is gone"
                sentences.append(f"Recipe '{about['recipe']}': {source} {what}; run `{about['command']}` again.")
    return sentences


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def systems_page() -> str:
    """What every published system is: a table of all, then the docstring of each."""
    names = [*list_systems(), *list_network_systems()]
    cards = {name: system_class(name) for name in names}
    table = ["| system | what it does | reference | marks |", "|---|---|---|---|"]
    table += [f"| [`{n}`](#{n}) | {c.summary} | {c.reference} | {c.marks} |" for n, c in cards.items()]
    marks = [f"| {mark} | {meaning} |" for mark, meaning in MARKS.items()]
    parts = [SYSTEMS, "\n".join(["| mark | meaning |", "|---|---|", *marks]), "\n".join(table)]
    for name, card in cards.items():
        parts += [f"## `{name}` {{ #{name} }}", inspect.getdoc(card) or ""]
    return "\n\n".join(parts) + "\n"


def main(words: Sequence[str]) -> int:
    """Print the page of systems, or what is wrong with pages of results."""
    if list(words) == ["systems"]:
        sys.stdout.write(systems_page())
        return 0
    pages = {path: path.stem.removeprefix("results-") for path in map(Path, words[1:])}
    if words[:1] != ["check"] or not set(pages.values()) <= set(OPENINGS):
        sys.stderr.write(
            "usage: python -m subspan.paper.pages systems | check results-multi-session.md results-single-session.md\n"
        )
        return 2
    wrong = [
        f"{path}: {sentence}"
        for path, name in pages.items()
        for sentence in problems(name, path.read_text("utf-8"), path.absolute().parents[1] / "benchmarks")
    ]
    sys.stdout.write("".join(f"{sentence}\n" for sentence in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
