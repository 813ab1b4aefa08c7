"""``REPRODUCIBILITY.md``: one section per protocol with its tables, its command and what is missing."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from subspan.experiments.report.html import ReportTable
from subspan.experiments.report.render import to_markdown
from subspan.files.atomic import replacing

TITLE = "# Reproducibility: published against ours"
KEPT = "<!-- What stands below this line is written by hand and kept when the file is made again. -->"


@dataclass(frozen=True)
class Section:
    """A part of the document that one command makes."""

    name: str
    heading: str
    opening: str
    command: str  # what follows `subspan reproduce`

    @property
    def marker(self) -> str:
        return f"<!-- section {self.name}: made by `subspan reproduce {self.command} --markdown FILE`. -->"


MULTI_SESSION = "multi-session"  # the command, and the section of the paper's own recipe
SINGLE_SESSION = "single-session"  # likewise
PAPER = "paper"  # that recipe


def multi_session_section(recipe: str) -> Section:
    """The section of the base sessions of one recipe; that of the paper's own comes first and is named after none."""
    what = "Every table of the paper's multi-session experiments on miniImageNet"
    return _section_of(recipe, MULTI_SESSION, "Multi-session", what)


def single_session_section(recipe: str) -> Section:
    """The section of one recipe, like that of its multi-session tables."""
    return _section_of(recipe, SINGLE_SESSION, "Single session", "The paper's single-session table")


def _section_of(recipe: str, command: str, heading: str, what: str) -> Section:
    origin = f"{what}, from feature files that our own base sessions"
    if recipe == PAPER:
        return Section(command, heading, f"{origin} produced.", command)
    return Section(
        f"{command}-{recipe}",
        f"{heading}, recipe {recipe}",
        f"{origin} of recipe '{recipe}' produced.",
        f"{command} --recipe {shlex.quote(recipe)}",
    )


def write_section(
    path: Path, section: Section, tables: Sequence[ReportTable], missing: Sequence[str], facts: Mapping[str, str]
) -> None:
    """Write the file with this section anew; what else it holds stays."""
    earlier = path.read_text("utf-8") if path.is_file() else ""
    with replacing(path) as file:
        file.write_text(to_document(section, tables, missing, facts, earlier), "utf-8")


def to_document(
    section: Section,
    tables: Sequence[ReportTable],
    missing: Sequence[str],
    facts: Mapping[str, str],
    earlier: str = "",
) -> str:
    """The whole file as markdown: this section anew, all else as it was in ``earlier``."""
    made, by_hand = _parts(earlier)
    made[section.name] = "\n\n".join(
        [
            section.marker,
            f"# {section.heading}",
            section.opening,
            "\n".join(f"- {name}: {f'`{value}`' if name == 'command' else value}" for name, value in facts.items()),
            "## What is missing",
            "\n".join(f"- {sentence}" for sentence in missing) or "Nothing.",
            *(to_markdown(one.table).rstrip() for one in tables),
        ]
    )
    parts = [TITLE, "Commands make the sections; by hand is only what stands after the last table."]
    parts += [made[name] for name in sorted(made)]  # of both protocols paper first, then other recipes
    return "\n\n".join([*parts, KEPT, *([by_hand] if by_hand else [])]) + "\n"


def _parts(text: str) -> tuple[dict[str, str], str]:
    """The sections of a document by name, each with its marker, and what was written by hand."""
    by_commands, _, by_hand = text.partition(KEPT)
    _, *pieces = re.split(r"(?m)^(?=<!-- section (.+?): made by )", by_commands)  # name, section, name, section, ...
    return {name: piece.strip() for name, piece in zip(pieces[::2], pieces[1::2], strict=True)}, by_hand.strip()
