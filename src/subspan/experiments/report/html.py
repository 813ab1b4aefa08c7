"""One self-contained HTML page with everything a run has to show; figures and tables as files beside it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from subspan.experiments.records import Result
from subspan.experiments.report.figures import ReportFigure, report_figures
from subspan.experiments.report.render import TEMPLATES, to_csv, to_latex, to_markdown
from subspan.experiments.report.results_table import IMAGES, MEASURES, OF_EPISODES, SESSIONS, results_table
from subspan.experiments.report.tables import Table
from subspan.experiments.results import MethodResult
from subspan.files.atomic import replacing

FORMS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


def write_report(directory: str | Path, results: Sequence[Result], *, title: str, facts: Mapping[str, str]) -> Path:
    """Write ``report.html``, ``table.csv``, ``table.md``, ``table.tex`` and the figures; return the page's path.

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
    """Write ``report.html``, each table as csv, markdown and LaTeX, each figure as PNG, PDF and SVG; return the page.

    ``findings`` are the sentences that open the page. Every file is replaced in one step, the page last.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    files = {f"{one.name}.{ending}": content for one in figures for ending, content in one.files.items()}
    files |= {f"{one.name}.{end}": form(one).encode() for one in tables for end, form in FORMS.items()}
    shown = {"title": title, "findings": findings, "tables": tables, "figures": figures, "facts": facts}
    page = TEMPLATES.get_template("page.html").render(shown, repeated=(IMAGES, SESSIONS))
    for name, content in (files | {"report.html": page.encode()}).items():
        with replacing(directory / name) as file:
            file.write_bytes(content)
    return directory / "report.html"


def _findings(results: Sequence[Result]) -> list[str]:
    """The best method of each setting, in one sentence each."""
    sentences = []
    for where in dict.fromkeys(one.where for one in sorted(results, key=lambda one: one.block)):
        chosen = [result for result in results if result.where == where]
        headline = MEASURES["images"] if isinstance(chosen[0], MethodResult) else OF_EPISODES["accuracy"]
        found = [headline.cell_of(result) for result in chosen]
        best = int(np.argmax([cell.value for cell in found]))
        interval = f" ± {found[best].half_width:.1f}" if np.isfinite(found[best].half_width) else ""
        name = chosen[best].method
        rank = f"{name} has" if len(chosen) == 1 else f"the best of {len(chosen)} methods is {name}, with"
        said = f"{where[0].upper()}{where[1:]}, {rank} {found[best].value:.1f}{interval} % on {headline.column.meaning}"
        sentences.append(f"{said}{' after the last session' * isinstance(chosen[best], MethodResult)}.")
    return sentences
