"""One self-contained HTML page with everything a run has to show; PNGs and tables as files beside it."""

import base64
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np

from subspan.experiments.report.figures import ReportFigure, report_figures
from subspan.experiments.report.render import to_csv, to_html, to_latex, to_markdown
from subspan.experiments.report.summary import mean_and_half_width
from subspan.experiments.report.tables import Table, results_table
from subspan.experiments.results import MethodResult
from subspan.files.atomic import replacing

_STYLE = resources.files("subspan.experiments.report").joinpath("page.css").read_text(encoding="utf-8")
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class ReportTable:
    """One table of a page."""

    name: str  # of its files, without ending
    heading: str
    table: Table


def write_report(
    directory: str | Path, results: Sequence[MethodResult], *, title: str, facts: Mapping[str, str]
) -> Path:
    """Write ``report.html``, ``table.csv``, ``table.md``, ``table.tex`` and the PNGs; return the page's path.

    ``facts`` (command, device, date, seeds ...) are shown in their order; the protocol hash is added from the results
    where it is missing.
    """
    return write_page(
        directory,
        title=title,
        findings=_findings(results),
        tables=[ReportTable("table", "Results", results_table(results, title))],
        figures=report_figures(results),
        facts=_all_facts(facts, results),
    )


def write_page(
    directory: str | Path,
    *,
    title: str,
    findings: Sequence[str],
    tables: Sequence[ReportTable],
    figures: Sequence[ReportFigure],
    facts: Mapping[str, str],
) -> Path:
    """Write ``report.html``, each table as csv, markdown and LaTeX, and the PNGs; return the page's path.

    ``findings`` are the sentences that open the page. Every file is replaced in one step, the page last.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        _write(directory / f"{figure.name}.png", figure.png)
    for one in tables:
        forms = {"csv": to_csv(one.table), "md": to_markdown(one.table), "tex": to_latex(one.table)}
        for ending, text in forms.items():
            _write(directory / f"{one.name}.{ending}", text.encode())
    page = directory / "report.html"
    _write(page, _page(title, findings, tables, figures, facts).encode())
    return page


def _page(
    title: str,
    findings: Sequence[str],
    tables: Sequence[ReportTable],
    figures: Sequence[ReportFigure],
    facts: Mapping[str, str],
) -> str:
    opening = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in findings)
    pictures = "".join(_figure(figure) for figure in figures)
    name = html.escape(title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{name}</title>
<style>
{_STYLE}</style>
</head>
<body>
<main>
<header><h1>{name}</h1>{opening}</header>
{"".join(_table_section(one) for one in tables)}
{f'<section aria-labelledby="figures"><h2 id="figures">Figures</h2>{pictures}</section>' if pictures else ""}
<section aria-labelledby="facts"><h2 id="facts">How this was made</h2>
{_facts_table(facts)}
</section>
</main>
</body>
</html>
"""


def _table_section(one: ReportTable) -> str:
    name = html.escape(one.name)
    return f"""<section aria-labelledby="{name}"><h2 id="{name}">{html.escape(one.heading)}</h2>
{to_html(one.table)}
{_meanings(one.table)}
<p>The same numbers: <a href="{name}.csv">{name}.csv</a> (full precision), <a href="{name}.md">{name}.md</a>,
<a href="{name}.tex">{name}.tex</a>.</p>
</section>
"""


def _findings(results: Sequence[MethodResult]) -> list[str]:
    """The best method of each memory setting, in one sentence each."""
    sentences = []
    for memory in (False, True):
        chosen = [result for result in results if result.memory == memory]
        if not chosen:
            continue
        last = [mean_and_half_width(result, result.accuracy[:, -1]) for result in chosen]
        best = int(np.argmax([mean for mean, _ in last]))
        mean, half_width = last[best]
        interval = f" ± {half_width:.1f}" if np.isfinite(half_width) else ""
        setting = "With memory" if memory else "Without memory"
        alone, name = len(chosen) == 1, chosen[best].method
        rank = f"{name} has" if alone else f"the best of {len(chosen)} methods is {name}, with"
        sentences.append(f"{setting}, {rank} {mean:.1f}{interval} % on all test images after the last session.")
    return sentences


def _all_facts(facts: Mapping[str, str], results: Sequence[MethodResult]) -> dict[str, str]:
    hashes = sorted({result.protocol for result in results if result.protocol})
    missing = hashes and not any("protocol" in name.lower() for name in facts)
    return {**facts, **({"protocol hash": ", ".join(hashes)} if missing else {})}


def _facts_table(facts: Mapping[str, str]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f'<div class="table"><table class="facts"><tbody>{rows}</tbody></table></div>'


def _meanings(table: Table) -> str:
    """What the short column titles stand for, sessions left out."""
    entries = "".join(
        f"<dt>{html.escape(column.title)}</dt><dd>{html.escape(column.meaning)}</dd>"
        for column in table.columns
        if not column.key.startswith(("images_", "session_"))
    )
    return f"<details><summary>What the columns mean</summary><dl>{entries}</dl></details>" if entries else ""


def _figure(figure: ReportFigure) -> str:
    data = base64.b64encode(figure.png).decode("ascii")
    return (
        f"<h3>{html.escape(figure.title)}</h3>\n"
        f'<figure><div class="picture" role="region" tabindex="0" aria-label="{html.escape(figure.title)}">'
        f'<img src="data:image/png;base64,{data}" alt="{html.escape(figure.alt)}"></div>'
        f"<figcaption>{html.escape(figure.caption)}</figcaption></figure>\n"
    )


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write_bytes(content)
