"""``REPRODUCIBILITY.md``: one section per protocol with its tables, its command and what is missing."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from subspan.report.html import ReportTable
from subspan.report.render import to_markdown

TITLE = "# Reproducibility: published against ours"
KEPT = "<!-- What stands below this line is written by hand and kept when the file is made again. -->"


@dataclass(frozen=True)
class Section:
    """A part of the document that one command makes."""

    name: str  # of the sub-command
    heading: str
    opening: str

    @property
    def marker(self) -> str:
        return f"<!-- section {self.name}: made by `subspan reproduce {self.name} --markdown FILE`. -->"


MULTI_SESSION = Section(
    "multi-session",
    "Multi-session",
    "Every table of the paper's multi-session experiments on miniImageNet, from feature files that our own base "
    "sessions produced.",
)
SINGLE_SESSION = Section(
    "single-session",
    "Single session",
    "The paper's single-session table, from feature files that our own base sessions produced.",
)
SECTIONS = (MULTI_SESSION, SINGLE_SESSION)


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
            f"# {section.heading}",
            section.opening,
            "\n".join(f"- {name}: {f'`{value}`' if name == 'command' else value}" for name, value in facts.items()),
            "## What is missing",
            "\n".join(f"- {sentence}" for sentence in missing) or "Nothing.",
            *(to_markdown(one.table).rstrip() for one in tables),
        ]
    )
    parts = [TITLE, "Commands make the sections; by hand is only what stands after the last table."]
    for one in SECTIONS:
        if one.name in made:
            parts += [one.marker, made[one.name]]
    return "\n\n".join([*parts, KEPT, *([by_hand] if by_hand else [])]) + "\n"


def _parts(text: str) -> tuple[dict[str, str], str]:
    """The sections of a document by name, and what was written by hand."""
    by_commands, _, by_hand = text.partition(KEPT)
    pieces = re.split(r"<!-- section ([a-z-]+):[^\n]*-->\n", by_commands)
    return dict(zip(pieces[1::2], map(str.strip, pieces[2::2]), strict=True)), by_hand.strip()
