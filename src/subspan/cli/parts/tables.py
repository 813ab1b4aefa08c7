"""How the commands for photographs show their results to people."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text
from sklearn.datasets import load_sample_images

from subspan.catalogue.records import AddReport, ClassEntry, Evaluation, InitReport, Prediction, SessionEntry

if TYPE_CHECKING:
    from subspan.catalogue.export import ExportReport


def show(*parts: RenderableType) -> None:
    console = Console(highlight=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, str), markup=False)


def init_text(path: Path, report: InitReport) -> str:
    lines = [f"{path}: {_count(report.classes, 'class')}, method {report.method}, {report.seconds:.1f} s."]
    if report.examples:
        lines.append(f"Learned from {_count(report.examples, 'photograph')}.")
    if report.accuracy is None:
        lines.append("Nothing was held out, so later sessions cannot say what they cost these classes.")
    else:
        lines.append(f"Held-out accuracy: {report.accuracy:.1f} % on {_count(report.held_out, 'photograph')}.")
    return "\n".join(lines + _skipped(report.skipped))


def add_text(reports: Sequence[AddReport]) -> str:
    lines: list[str] = []
    for report in reports:
        verb = "Learned" if report.kind == "add_classes" else "Learned more of"
        lines.append(
            f"{verb} {', '.join(report.classes)} from {_count(report.examples, 'photograph')} (session "
            f"{report.session}, {report.seconds:.1f} s)."
        )
        if report.check is None:
            lines.append("No examples of the other classes are kept: what this cost them is unknown.")
        else:
            lines.append(
                f"The other classes, on {_count(report.check.examples, 'kept example')}: {report.check.before:.1f} % "
                f"before, {report.check.after:.1f} % after ({0.0 - report.check.drop:+.1f} points)."
            )
        if report.takes_from:
            taken = ", ".join(
                f"{one.name} ({one.lost} of {one.examples}, {100 * one.share:.0f} % of the probability)"
                for one in report.takes_from
            )
            lines.append(f"Takes most from: {taken}.")
        if report.warning:
            lines.append(f"Warning: {report.warning}.")
    return "\n".join(lines + _skipped(reports[0].skipped))


def predictions_table(files: Sequence[Path], answers: Sequence[Prediction]) -> Table:
    table = _table("image", "answer", "probability", "then", wrap=("image", "answer", "then"))
    for file, answer in zip(files, answers, strict=True):
        best, rest = answer.candidates[0], answer.candidates[1:]
        then = ", ".join(f"{one.name} {100 * one.probability:.1f}" for one in rest)
        if answer.rejected:
            _add_row(table, str(file), "none of these", "", f"nearest: {best.name}")
        else:
            _add_row(table, str(file), best.name, f"{100 * best.probability:.1f} %", then)
    return table


def evaluation_tables(result: Evaluation) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if result.accuracy is not None:
        parts.append(f"Accuracy: {result.accuracy:.1f} % on {_count(result.examples, 'photograph')}.")
        table = _table("class", "photographs", "right", "taken for", wrap=("class", "taken for"))
        for one in sorted(result.per_class, key=lambda one: (one.accuracy, one.name)):
            wrong = ", ".join(f"{name} ({count})" for name, count in one.taken_for[:4])
            more = ", ..." if len(one.taken_for) > 4 else ""
            _add_row(table, one.name, str(one.examples), f"{one.accuracy:.0f} %", wrong + more)
        parts.append(table)
    if result.unknown_examples:
        parts.append(f"{_count(result.unknown_examples, 'photograph')} of classes that the catalogue does not know.")
    if result.curve:
        parts.append("\nWhat --reject would do, by the share of known photographs it may turn away:")
        table = _table("may reject", "known rejected", "accuracy of the rest", "unknown rejected")
        for point in result.curve:
            shares = map(_percent, (point.known_rejected, point.accuracy_of_accepted, point.unknown_rejected))
            _add_row(table, f"{100 * point.promised:g} %", *shares)
        parts.append(table)
    return [*parts, *_skipped(result.skipped)]


def confusion_table(result: Evaluation) -> pd.DataFrame:
    """Photographs by true class (rows) and answer (columns)."""
    names = [one.name for one in result.per_class]
    answers = sorted({*names, *(name for one in result.per_class for name, _ in one.taken_for)})
    table = pd.DataFrame(0, index=pd.Index(names, name="class"), columns=answers)
    for one in result.per_class:
        for name, count in ((one.name, one.correct), *one.taken_for):
            table.loc[one.name, name] = count
    return table


def classes_table(entries: Sequence[ClassEntry]) -> Table:
    table = _table("class", "kind", "examples", "kept", "description", wrap=("class", "description"))
    for one in entries:
        kind = "base" if one.base else "added"
        _add_row(table, one.name, kind, str(one.examples or "?"), str(one.kept), one.description or "")
    return table


def sessions_table(entries: Sequence[SessionEntry]) -> Table:
    table = _table("session", "when (UTC)", "what", "examples", "before", "after", "version", wrap=("what",))
    for one in entries:
        check = one.check
        _add_row(
            table,
            str(one.session),
            one.date[:16].replace("T", " "),
            what(one) + (" (warned)" if one.warning else ""),
            str(one.examples or ""),
            _percent(check.before if check and one.kind != "base" else None),
            _percent(check.after if check else None),
            (one.version or "pruned")[:8],
        )
    return table


def what(entry: SessionEntry) -> str:
    """What happened in a session, in words."""
    names = ", ".join(entry.classes[:5]) + (f" and {len(entry.classes) - 5} more" if len(entry.classes) > 5 else "")
    if entry.kind == "rename_class":
        return " renamed to ".join(entry.classes)
    verbs = {
        "base": "base classes",
        "add_classes": "added",
        "add_examples": "more of",
        "remove_class": "removed",
        "damaged": "a damaged version",
    }
    return f"{verbs[entry.kind]} {names}".strip()


def export_text(report: "ExportReport") -> str:
    shape = " x ".join(map(str, report.input))
    return (
        f"{report.file}: {report.bytes / 1e6:.1f} MB, {_count(report.classes, 'class')}, input {shape}.\n"
        f"onnxruntime and the catalogue agree on {report.agreed} of {_count(report.images, 'photograph')}; greatest "
        f"difference of a probability {report.difference:.1g}."
    )


def sample_photographs() -> list[np.ndarray]:
    """The two photographs that come with scikit-learn, whole and in halves."""
    whole = [np.asarray(image, np.uint8) for image in load_sample_images().images]
    halves = [part for image in whole for part in np.array_split(image, 2, axis=1)]
    return [np.ascontiguousarray(image) for image in (*whole, *halves)]


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %"


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"


def _skipped(skipped: Sequence[str]) -> list[str]:
    return [f"Left out: {reason}." for reason in skipped]


def _table(*columns: str, wrap: Sequence[str] = ()) -> Table:
    """A table in which only the columns in ``wrap`` may take several lines."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column not in wrap)
    return table


def _add_row(table: Table, *cells: str) -> None:
    table.add_row(*map(Text, cells))  # text as it is: a class name may look like markup
