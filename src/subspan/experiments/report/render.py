"""One table, five forms: console (rich), markdown, csv, LaTeX (booktabs) and HTML (``templates/table.html``)."""

import math
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as ConsoleTable
from rich.text import Text

from subspan.experiments.report.tables import Cell, Column, Table

GAP = 2  # characters between two columns of the console: one of padding, one of the box
MISSING = "\N{EN DASH}"


def to_console(table: Table, width: int = 120, decimals: int = 1) -> Group:
    """For ``rich.print``; columns that do not fit in ``width`` characters go on in another table below."""
    widths = {column.key: _width(table, column, decimals) for column in table.columns}
    texts = zip(table.headings, *(row.headings for row in table.rows), strict=True)
    first, *others = (max(map(len, column)) for column in texts)
    widest = max(sum(widths[column.key] for column in columns) for _, columns in table.column_groups())
    # The first heading is folded, down to 16, where that lets a whole group stay in one table.
    headings = [min(first, max(16, width - widest - sum(others) - GAP * len(table.headings))), *others]
    parts: list[RenderableType] = [Text(table.title, style="bold")] if table.title else []
    for name, columns in table.column_groups():
        parts.append(Text(f"\n{name}", style="italic"))
        for chunk in _chunks(columns, widths, width - sum(headings) - GAP * len(headings)):
            part = ConsoleTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
            for heading, size in zip(table.headings, headings, strict=True):
                part.add_column(heading, overflow="fold", min_width=size, max_width=size)
            for column in chunk:
                part.add_column(column.title, justify="right", no_wrap=True)
            for rows in table.row_blocks():
                for row in rows:
                    cells = [(_plain(row[c.key], c, decimals), "bold green" * row[c.key].top) for c in chunk]
                    texts = [*map(Text, row.headings), *(Text(text, style=style) for text, style in cells)]
                    part.add_row(*texts, end_section=row is rows[-1])
            parts.append(part)
    return Group(*parts, *(Text(note, style="dim") for note in table.said))


def to_markdown(table: Table) -> str:
    """GitHub's pipe tables, one per column group."""
    parts = [f"## {markdown_escape(table.title)}"] if table.title else []
    for name, columns in table.column_groups():
        lines = [[*table.headings, *(c.title for c in columns)]]
        lines += [["---"] * len(table.headings) + ["---:"] * len(columns)]
        for row in table.rows:
            texts = [(_plain(row[c.key], c), "**" * row[c.key].top) for c in columns]
            lines.append([*map(markdown_escape, row.headings), *(f"{bold}{text}{bold}" for text, bold in texts)])
        parts += [f"**{markdown_escape(name)}**"] if name else []
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join([*parts, *map(markdown_escape, table.said)]) + "\n"


def to_csv(table: Table) -> str:
    """Wide: one line per row in full precision; each column K has K, K_ci95 (half width) and K_top (true or false).

    A table with marked cells has K_mark too.
    """
    import pandas as pd  # slow to import, and only for this

    marked = any(cell.mark for row in table.rows for cell in row.cells.values())
    header, lines = list(table.headings), [list(row.headings) for row in table.rows]
    for key in (column.key for column in table.columns):
        header += [key, f"{key}_ci95", f"{key}_top", *([f"{key}_mark"] if marked else [])]
        for line, row in zip(lines, table.rows, strict=True):
            cell = row[key]
            line += [cell.value, cell.half_width, str(cell.top).lower(), *([cell.mark] if marked else [])]
    return pd.DataFrame(lines, columns=header).to_csv(index=False, lineterminator="\n")


def to_latex(table: Table) -> str:
    r"""Tabulars with booktabs rules, one per column group; needs ``\usepackage{booktabs}``."""
    lines = [rf"% {_latex_escape(text)}" for text in (table.title, *table.said) if text]
    for name, columns in table.column_groups():
        lines += [rf"% {_latex_escape(name)}"] if name else []
        lines += [rf"\begin{{tabular}}{{{'l' * len(table.headings)}{'r' * len(columns)}}}", r"\toprule"]
        titles = [*table.headings, *(column.title for column in columns)]
        lines.append(" & ".join(map(_latex_escape, titles)) + r" \\")
        for rows in table.row_blocks():
            lines.append(r"\midrule")
            for row in rows:
                cells = (_latex_cell(row[column.key], column) for column in columns)
                lines.append(" & ".join([*map(_latex_escape, row.headings), *cells]) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _number(value: float, column: Column, decimals: int | None = None) -> str:
    if not math.isfinite(value):
        return MISSING
    return f"{value:.{column.decimals if decimals is None else min(decimals, column.decimals)}f}"


def _plain(cell: Cell, column: Column, decimals: int | None = None) -> str:
    """The number with its interval and mark, as plain text shows it."""
    interval = f"±{_number(cell.half_width, column, decimals)}" if math.isfinite(cell.half_width) else ""
    return _number(cell.value, column, decimals) + interval + cell.mark


def _width(table: Table, column: Column, decimals: int) -> int:
    """Characters a column of numbers takes in the console."""
    return max(map(len, [column.title, *(_plain(row[column.key], column, decimals) for row in table.rows)])) + GAP


def _chunks(columns: Sequence[Column], widths: dict[str, int], room: int) -> Iterator[list[Column]]:
    """Cut a group of columns where the next one would no longer fit."""
    chunk: list[Column] = []
    for column in columns:
        if chunk and sum(widths[one.key] for one in (*chunk, column)) > room:
            yield chunk
            chunk = []
        chunk.append(column)
    yield chunk


def markdown_escape(text: str) -> str:
    """Text that markdown shows as it stands."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


_LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "†": r"\dag{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}


def _latex_escape(text: str) -> str:
    return text.translate(str.maketrans(_LATEX_SPECIAL))


def _latex_cell(cell: Cell, column: Column) -> str:
    value = _number(cell.value, column).replace(MISSING, "--")
    text = rf"\textbf{{{value}}}" if cell.top else value
    if math.isfinite(cell.half_width):
        text += rf" {{\scriptsize$\pm${_number(cell.half_width, column)}}}"
    return text + _latex_escape(cell.mark)


def _breakable(name: str) -> Markup:
    """A long method name may break before an option."""
    return Markup("<wbr>").join(re.split(r"(?<=[:,])(?=\w)", name))


TEMPLATES = Environment(
    loader=PackageLoader("subspan.experiments.report"),
    autoescape=lambda name: name != "page.css",  # nosec B701 # what users fill is escaped
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
TEMPLATES.filters |= {"number": _number, "breakable": _breakable, "base64": lambda data: b64encode(data).decode()}
TEMPLATES.tests["finite"] = math.isfinite
