"""``REPRODUCIBILITY.md``: every table of a reproduction with its command, and what is still missing."""

from collections.abc import Mapping, Sequence

from subspan.report.html import ReportTable
from subspan.report.render import to_markdown

KEPT = "<!-- What stands below this line is written by hand and kept when the file is made again. -->"


def to_document(
    tables: Sequence[ReportTable], missing: Sequence[str], facts: Mapping[str, str], earlier: str = ""
) -> str:
    """The whole file as markdown; of ``earlier``, the file as it was, the part below ``KEPT`` stays."""
    parts = [
        "# Reproducibility: published against ours",
        "Every table of the paper's multi-session experiments on miniImageNet, from feature files that our own base "
        "sessions produced. The command below makes this file; by hand is only what stands after the last table.",
        "\n".join(f"- {name}: {f'`{value}`' if name == 'command' else value}" for name, value in facts.items()),
        "## What is missing",
        "\n".join(f"- {sentence}" for sentence in missing) or "Nothing.",
        *(to_markdown(one.table).rstrip() for one in tables),
        KEPT,
    ]
    by_hand = earlier.partition(KEPT)[2].strip()
    return "\n\n".join([*parts, *([by_hand] if by_hand else [])]) + "\n"
