"""One table, five forms: console (rich), markdown, csv, LaTeX (booktabs) and HTML."""

import csv
import html
import io
import math
import re
from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as ConsoleTable
from rich.text import Text

from subspan.experiments.report.tables import Cell, Column, Row, Table

GAP = 2  # characters between two columns of the console: one of padding, one of the box
MISSING = "\N{EN DASH}"


def to_console(table: Table, width: int = 120, decimals: int = 1) -> Group:
    """For ``rich.print``; columns that do not fit in ``width`` characters go on in another table below."""
    widths = _heading_widths(table, width, decimals)
    parts: list[RenderableType] = [Text(table.title, style="bold")] if table.title else []
    for name, numbers in table.column_groups():
        parts.append(Text(f"\n{name}", style="italic"))
        for chunk in _chunks(table, numbers, width - sum(widths) - GAP * len(widths), decimals):
            parts.append(_console_part(table, widths, chunk, decimals))
    parts.extend(Text(note, style="dim") for note in table.notes)
    return Group(*parts)


def to_markdown(table: Table) -> str:
    """GitHub's pipe tables, one per column group."""
    parts = [f"## {markdown_escape(table.title)}"] if table.title else []
    for name, numbers in table.column_groups():
        columns = [table.columns[number] for number in numbers]
        lines = [
            _pipes([*table.headings, *(column.title for column in columns)]),
            _pipes(["---"] * len(table.headings) + ["---:"] * len(columns)),
        ]
        for row in table.rows:
            texts = [_text(row.cells[number], table.columns[number]) for number in numbers]
            marked = [f"**{t}**" if row.cells[n].top else t for t, n in zip(texts, numbers, strict=True)]
            lines.append(_pipes([*(markdown_escape(heading) for heading in row.headings), *marked]))
        parts.extend([*([f"**{markdown_escape(name)}**"] if name else []), "\n".join(lines)])
    parts.extend(markdown_escape(note) for note in table.notes)
    return "\n\n".join(parts) + "\n"


def to_csv(table: Table) -> str:
    """Wide: one line per row in full precision; each column K has K, K_ci95 (half width) and K_top (true or false).

    A table with marked cells has K_mark too.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    marked = any(cell.mark for row in table.rows for cell in row.cells)
    suffixes = ("", "_ci95", "_top", "_mark") if marked else ("", "_ci95", "_top")
    suffixed = [f"{column.key}{suffix}" for column in table.columns for suffix in suffixes]
    writer.writerow([*table.headings, *suffixed])
    for row in table.rows:
        numbers = [
            text
            for cell in row.cells
            for text in (
                _exact(cell.value),
                _exact(cell.half_width),
                "true" if cell.top else "false",
                *([cell.mark] if marked else []),
            )
        ]
        writer.writerow([*row.headings, *numbers])
    return stream.getvalue()


def to_latex(table: Table) -> str:
    r"""Tabulars with booktabs rules, one per column group; needs ``\usepackage{booktabs}``."""
    lines = [rf"% {_latex_escape(table.title)}"] if table.title else []
    lines += [rf"% {_latex_escape(note)}" for note in table.notes]
    for name, numbers in table.column_groups():
        columns = [table.columns[number] for number in numbers]
        if name:
            lines.append(rf"% {_latex_escape(name)}")
        lines += [rf"\begin{{tabular}}{{{'l' * len(table.headings)}{'r' * len(columns)}}}", r"\toprule"]
        titles = [*table.headings, *(column.title for column in columns)]
        lines += [" & ".join(map(_latex_escape, titles)) + r" \\", r"\midrule"]
        for number, (_, rows) in enumerate(table.row_blocks()):
            lines += [r"\midrule"] if number else []
            lines += [_latex_row(table, row, numbers) for row in rows]
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def to_html(table: Table) -> str:
    """Fragments ``<div class="table">``, one per column group, for a page that brings its own style."""
    parts = []
    for name, numbers in table.column_groups():
        head = "".join(f'<th scope="col">{html.escape(heading)}</th>' for heading in table.headings)
        head += "".join(_html_column(table.columns[number]) for number in numbers)
        bodies = "".join(
            f"<tbody>{''.join(_html_row(table, row, numbers) for row in rows)}</tbody>"
            for _, rows in table.row_blocks()
        )
        caption = f"<caption>{html.escape(name)}</caption>" if name else ""
        parts.append(
            f'<div class="table" role="region" tabindex="0" aria-label="{html.escape(name or table.title)}">'
            f"<table>{caption}<thead><tr>{head}</tr></thead>{bodies}</table></div>"
        )
    if table.notes:
        parts.append(f'<ul class="notes">{"".join(f"<li>{html.escape(note)}</li>" for note in table.notes)}</ul>')
    return "\n".join(parts)


def _number(value: float, column: Column, decimals: int | None = None) -> str:
    if not math.isfinite(value):
        return MISSING
    return f"{value:.{column.decimals if decimals is None else min(decimals, column.decimals)}f}"


def _text(cell: Cell, column: Column, decimals: int | None = None) -> str:
    """The number with its interval and mark, as every plain-text form shows it."""
    interval = f"±{_number(cell.half_width, column, decimals)}" if math.isfinite(cell.half_width) else ""
    return _number(cell.value, column, decimals) + interval + cell.mark


def _exact(value: float) -> str:
    return repr(value) if math.isfinite(value) else ""


def _needed(table: Table, number: int, decimals: int) -> int:
    """Characters a column of numbers takes in the console."""
    column = table.columns[number]
    texts = [column.title, *(_text(row.cells[number], column, decimals) for row in table.rows)]
    return max(map(len, texts)) + GAP


def _heading_widths(table: Table, width: int, decimals: int) -> list[int]:
    """Characters of each heading; the first is folded, down to 16, where that lets a whole group stay in one table."""
    texts = [table.headings, *(row.headings for row in table.rows)]
    first, *others = (max(map(len, column)) for column in zip(*texts, strict=True))
    widest = max(sum(_needed(table, number, decimals) for number in numbers) for _, numbers in table.column_groups())
    room = width - widest - sum(others) - GAP * len(table.headings)
    return [min(first, max(16, room)), *others]


def _chunks(table: Table, numbers: list[int], width: int, decimals: int) -> Iterator[list[int]]:
    """Cut a group of columns where the next one would no longer fit in ``width`` characters."""
    chunk: list[int] = []
    used = 0
    for number in numbers:
        needed = _needed(table, number, decimals)
        if chunk and used + needed > width:
            yield chunk
            chunk, used = [], 0
        chunk.append(number)
        used += needed
    yield chunk


def _console_part(table: Table, widths: list[int], numbers: list[int], decimals: int) -> ConsoleTable:
    part = ConsoleTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for heading, heading_width in zip(table.headings, widths, strict=True):
        part.add_column(heading, overflow="fold", min_width=heading_width, max_width=heading_width)
    for number in numbers:
        part.add_column(table.columns[number].title, justify="right", no_wrap=True)
    for _, rows in table.row_blocks():
        for row in rows:
            cells = [
                Text(_text(row.cells[n], table.columns[n], decimals), style="bold green" if row.cells[n].top else "")
                for n in numbers
            ]
            part.add_row(*map(Text, row.headings), *cells, end_section=row is rows[-1])
    return part


def _pipes(texts: list[str]) -> str:
    return "| " + " | ".join(texts) + " |"


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
    return "".join(_LATEX_SPECIAL.get(character, character) for character in text)


def _latex_row(table: Table, row: Row, numbers: list[int]) -> str:
    texts = []
    for number in numbers:
        cell, column = row.cells[number], table.columns[number]
        value = _number(cell.value, column).replace(MISSING, "--")
        text = rf"\textbf{{{value}}}" if cell.top else value
        if math.isfinite(cell.half_width):
            text += rf" {{\scriptsize$\pm${_number(cell.half_width, column)}}}"
        texts.append(text + _latex_escape(cell.mark))
    return " & ".join([*map(_latex_escape, row.headings), *texts]) + r" \\"


def _html_column(column: Column) -> str:
    return f'<th scope="col" class="number" title="{html.escape(column.meaning)}">{html.escape(column.title)}</th>'


def _html_row(table: Table, row: Row, numbers: list[int]) -> str:
    first, *others = map(html.escape, row.headings)
    # A long method name may break before an option.
    breakable = re.sub(r"(?<=[:,])(?=\w)", "<wbr>", first)
    cells = f'<th scope="row">{breakable}</th>' + "".join(f"<td>{heading}</td>" for heading in others)
    for number in numbers:
        cell, column = row.cells[number], table.columns[number]
        text = _number(cell.value, column)
        if cell.top:
            text = f"<strong>{text}</strong>"
        if math.isfinite(cell.half_width):
            text += f" <small>±{_number(cell.half_width, column)}</small>"
        if cell.mark:
            text += f"<sup>{html.escape(cell.mark)}</sup>"
        cells += f'<td class="number">{text}</td>'
    return f"<tr>{cells}</tr>"
