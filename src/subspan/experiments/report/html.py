"""One self-contained HTML page with everything a run has to show; PNGs and tables as files beside it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from subspan.experiments.report.figures import ReportFigure, report_figures
from subspan.experiments.report.render import TEMPLATES, to_csv, to_latex, to_markdown
from subspan.experiments.report.results_table import IMAGES, SESSIONS, results_table
from subspan.experiments.report.tables import Table
from subspan.experiments.results import MethodResult
from subspan.files.atomic import replacing

FORMS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


def write_report(
    directory: str | Path, results: Sequence[MethodResult], *, title: str, facts: Mapping[str, str]
) -> Path:
    """Write ``report.html``, ``table.csv``, ``table.md``, ``table.tex`` and the PNGs; return the page's path.

    ``facts`` (command, device, date, seeds ...) are shown in their order, and after them the protocol's hash.
    """
    facts = {**facts, "protocol hash": ", ".join(sorted({result.protocol for result in results}))}
    tables, figures = [results_table(results, title)], report_figures(results)
    return write_page(directory, title=title, findings=_findings(results), tables=tables, figures=figures, facts=facts)


def write_page(
    directory: str | Path,
    *,
    title: str,
    findings: Sequence[str],
    tables: Sequence[Table],
    figures: Sequence[ReportFigure],
    facts: Mapping[str, str],
) -> Path:
    """Write ``report.html``, each table as csv, markdown and LaTeX, and the PNGs; return the page's path.

    ``findings`` are the sentences that open the page. Every file is replaced in one step, the page last.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    files = {f"{figure.name}.png": figure.png for figure in figures}
    files |= {f"{one.name}.{end}": form(one).encode() for one in tables for end, form in FORMS.items()}
    shown = {"title": title, "findings": findings, "tables": tables, "figures": figures, "facts": facts}
    page = TEMPLATES.get_template("page.html").render(shown, repeated=(IMAGES, SESSIONS))
    for name, content in (files | {"report.html": page.encode()}).items():
        with replacing(directory / name) as file:
            file.write_bytes(content)
    return directory / "report.html"


def _findings(results: Sequence[MethodResult]) -> list[str]:
    """The best method of each memory setting, in one sentence each."""
    sentences = []
    for memory in (False, True):
        chosen = [result for result in results if result.memory == memory]
        if not chosen:
            continue
        last = [result.mean_and_half_width(result.accuracy[:, -1]) for result in chosen]
        best = int(np.argmax([mean for mean, _ in last]))
        mean, half_width = last[best]
        interval = f" ± {half_width:.1f}" if np.isfinite(half_width) else ""
        name = chosen[best].method
        rank = f"{name} has" if len(chosen) == 1 else f"the best of {len(chosen)} methods is {name}, with"
        setting = "With memory" if memory else "Without memory"
        sentences.append(f"{setting}, {rank} {mean:.1f}{interval} % on all test images after the last session.")
    return sentences
