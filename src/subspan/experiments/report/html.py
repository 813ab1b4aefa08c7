"""One self-contained HTML page with everything a run has to show; PNGs and tables as files beside it."""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

import numpy as np

from subspan.experiments.report.figures import ReportFigure, report_figures
from subspan.experiments.report.render import to_csv, to_html, to_latex, to_markdown
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
    pictures = "".join(map(_figure, figures))
    parts = resources.files("subspan.experiments.report")
    page = Template(parts.joinpath("page.html").read_text("utf-8")).substitute(
        style=parts.joinpath("page.css").read_text("utf-8"),
        title=escape(title),
        opening="".join(f"<p>{escape(sentence)}</p>" for sentence in findings),
        tables="".join(_table(one, "Results" if one.title == title else one.title) for one in tables),
        figures=f'<section aria-labelledby="figures"><h2 id="figures">Figures</h2>{pictures}</section>'
        * bool(pictures),
        facts="".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
            for name, value in facts.items()
        ),
    )
    for name, content in (files | {"report.html": page.encode()}).items():
        with replacing(directory / name) as file:
            file.write_bytes(content)
    return directory / "report.html"


def _table(table: Table, heading: str) -> str:
    """A table, what its short titles stand for, sessions left out, and where its numbers lie as files."""
    name = escape(table.name)
    columns = [column for column in table.columns if column.group not in (IMAGES, SESSIONS)]
    entries = "".join(f"<dt>{escape(column.title)}</dt><dd>{escape(column.meaning)}</dd>" for column in columns)
    meanings = f"<details><summary>What the columns mean</summary><dl>{entries}</dl></details>" if entries else ""
    links = [f'<a href="{name}.{end}">{name}.{end}</a>{" (full precision)" * (end == "csv")}' for end in FORMS]
    return f"""<section aria-labelledby="{name}"><h2 id="{name}">{escape(heading)}</h2>
{to_html(table)}
{meanings}
<p>The same numbers: {", ".join(links)}.</p>
</section>
"""


def _figure(figure: ReportFigure) -> str:
    data, title = base64.b64encode(figure.png).decode("ascii"), escape(figure.title)
    return (
        f'<h3>{title}</h3>\n<figure><div class="picture" role="region" tabindex="0" aria-label="{title}">'
        f'<img src="data:image/png;base64,{data}" alt="{escape(figure.alt)}"></div>'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>\n"
    )


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
