"""How commands show their results to people: tables, and what a catalogue's records say in words."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from subspan.catalogue.records import AddReport, ClassEntry, Evaluation, Finding, InitReport, Prediction, SessionEntry
from subspan.cli import visible
from subspan.cli.parts.flags import text_of

if TYPE_CHECKING:
    from subspan.catalogue.export import ExportReport

WIDE = 100_000  # columns
VERBS = {
    "base": "base classes",
    "add_classes": "added",
    "add_examples": "more of",
    "remove_class": "removed",
    "remove_examples": "took photographs back from",
    "damaged": "a damaged version",
}


def show(*parts: RenderableType) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:  # nobody wraps or cuts what another program reads
        console = Console(highlight=False, width=WIDE)
    for part in parts:
        part = visible(part) if isinstance(part, str) else part
        console.print(part, soft_wrap=isinstance(part, str), markup=False)


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], wrap: Sequence[str] = ()) -> Table:
    """A table in which only the columns in ``wrap`` may take several lines; None and "" are empty cells."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column not in wrap)
    for row in rows:
        made.add_row(
            *(Text("" if cell is None else visible(str(cell))) for cell in row)
        )  # a class name may look like markup
    return made


def options_table(options: Iterable[tuple[str, object, str, str]], value: str = "default") -> Table:
    """Options, explained one by one: name, value, what it takes, meaning."""
    columns = ("option", value, "takes", "meaning")
    return table(columns, ((name, text_of(given), *others) for name, given, *others in options), wrap=columns[1:])


def init_text(path: Path, report: InitReport) -> str:
    lines = [f"{path}: {count(report.classes, 'class')}, method {report.method}, {report.seconds:.1f} s."]
    if report.examples:
        lines.append(f"Learned from {count(report.examples, 'photograph')}.")
    if report.accuracy is None:
        lines.append("No photograph could be asked about, so later sessions cannot say what they cost these classes.")
    else:
        asked = f"{count(report.judged, 'photograph')}, each asked of a model that was not taught it"
        lines.append(f"Accuracy: {report.accuracy:.1f} % of {asked}.")
    return "\n".join(lines + _to_look_at(report.worst) + left_out(report.skipped))


def add_text(reports: Sequence[AddReport]) -> str:
    lines: list[str] = []
    for report in reports:
        verb = "Learned" if report.kind == "add_classes" else "Learned more of"
        photographs = count(report.examples, "photograph")
        when = f"session {report.session}, {report.seconds:.1f} s"
        lines.append(f"{verb} {', '.join(report.classes)} from {photographs} ({when}).")
        if report.check is None:
            lines.append("No examples of the other classes are kept: what this cost them is unknown.")
        else:
            lines.append(
                f"The other classes, on {count(report.check.examples, 'kept example')}: {report.check.before:.1f} % "
                f"before, {report.check.after:.1f} % after ({0.0 - report.check.drop:+.1f} points)."
            )
        if report.takes_from:
            shares = (f"{one.lost} of {one.examples}, {100 * one.share:.0f} %" for one in report.takes_from)
            taken = (f"{one.name} ({s} of the probability)" for one, s in zip(report.takes_from, shares, strict=True))
            lines.append(f"Takes most from: {', '.join(taken)}.")
        if report.warning:
            lines.append(f"Warning: {report.warning}.")
    return "\n".join(lines + _to_look_at(reports[0].worst) + left_out(reports[0].skipped))


def predictions_table(files: Sequence[object], answers: Sequence[Prediction], header: bool = True) -> Table:
    rows = []
    for file, answer in zip(files, answers, strict=True):
        best, *rest = answer.candidates
        if answer.rejected:
            rows.append((file, "none of these", "", f"nearest: {best.name}"))
        else:
            then = ", ".join(f"{one.name} {100 * one.probability:.1f}" for one in rest)
            rows.append((file, best.name, _percent(100 * best.probability), then))
    made = table(("image", "answer", "probability", "then"), rows, wrap=("image", "answer", "then"))
    made.show_header = header
    return made


def review_table(findings: Sequence[Finding]) -> Table:
    rows = [(one.photograph, one.name, one.kind, one.says) for one in findings]
    return table(("photograph", "class", "kind", "why"), rows, wrap=("photograph", "class", "why"))


def evaluation_tables(result: Evaluation) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if result.accuracy is not None:
        rows = []
        for one in sorted(result.per_class, key=lambda one: (one.accuracy, one.name)):
            wrong = ", ".join(f"{name} ({count})" for name, count in one.taken_for[:4])
            more = ", ..." if len(one.taken_for) > 4 else ""
            rows.append((one.name, one.examples, f"{one.accuracy:.0f} %", wrong + more))
        parts.append(f"Accuracy: {result.accuracy:.1f} % on {count(result.examples, 'photograph')}.")
        if result.taught:
            parts.append(f"{count(result.taught, 'photograph')} of these were taught: on new ones it is lower.")
        parts.append(table(("class", "photographs", "right", "taken for"), rows, wrap=("class", "taken for")))
    if result.unknown_examples:
        parts.append(f"{count(result.unknown_examples, 'photograph')} of classes that the catalogue does not know.")
    if result.curve:
        shares = ((one.known_rejected, one.accuracy_of_accepted, one.unknown_rejected) for one in result.curve)
        rows = [(f"{100 * one.promised:g} %", *map(_percent, s)) for one, s in zip(result.curve, shares, strict=True)]
        parts.append("\nWhat --reject would do, by the share of known photographs it may turn away:")
        parts.append(table(("may reject", "known rejected", "accuracy of the rest", "unknown rejected"), rows))
    return [*parts, *left_out(result.skipped)]


def classes_table(entries: Sequence[ClassEntry]) -> Table:
    rows = [(e.name, "base" if e.base else "added", e.examples or "?", e.kept, e.description) for e in entries]
    return table(("class", "kind", "examples", "kept", "description"), rows, wrap=("class", "description"))


def sessions_table(entries: Sequence[SessionEntry]) -> Table:
    rows = []
    for one in entries:
        date, happened = one.date[:16].replace("T", " "), what(one) + " (warned)" * bool(one.warning)
        before = _percent(one.check.before if one.check and one.kind != "base" else None)
        after = _percent(one.check.after if one.check else None)
        rows.append(
            (one.session, date, happened, one.examples or "", before, after, (one.version or "pruned")[:8], one.author)
        )
    columns = ("session", "when (UTC)", "what", "examples", "before", "after", "version", "who")
    return table(columns, rows, wrap=("what",))


def what(entry: SessionEntry) -> str:
    """What happened in a session, in words."""
    if entry.kind == "rename_class":
        return " renamed to ".join(entry.classes)
    if entry.kind == "merge_classes":
        return "{1} made part of {0}".format(*entry.classes)
    names = ", ".join(entry.classes[:5]) + (f" and {len(entry.classes) - 5} more" if len(entry.classes) > 5 else "")
    return f"{VERBS[entry.kind]} {names}".strip()


def export_text(report: "ExportReport") -> str:
    shapes = ", ".join(" x ".join([name, *map(str, sides[1:])]) for name, sides in report.inputs.items())
    return (
        f"{report.file}: {report.bytes / 1e6:.1f} MB, {count(report.classes, 'class')}, takes {shapes}.\n"
        f"onnxruntime and the catalogue agree on {report.agreed} of {count(report.images, 'photograph')}; greatest "
        f"difference of a probability {report.difference:.1g}."
    )


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %"


def count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"


def _to_look_at(findings: Sequence[Finding]) -> list[str]:
    """What of the photographs that were taught should be looked at again."""
    return [f"Look at {one.photograph}, said to be '{one.name}': it {one.says}." for one in findings]


def left_out(skipped: Sequence[str]) -> list[str]:
    return [f"Left out: {reason}." for reason in skipped]
