"""``subspan methods``: what there is to choose from, listed without importing any of it."""

import inspect
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from subspan.learners.published import MARKS
from subspan.learners.registry import LEARNERS, kind_of, list_methods, method_class, method_options, summary_of


def methods(
    name: Annotated[
        str | None, typer.Argument(help="A method or system; its equations and options are explained.")
    ] = None,
) -> None:
    """List the methods and the published systems; with a name, what one does and its options.

    `subspan systems` is the same command.

    Examples:

        subspan methods

        subspan methods semantic
    """
    console = Console(highlight=False, markup=False)
    if name is not None:
        found = method_class(name)
        console.print(f"{name}: {found.summary}\n\n{inspect.getdoc(found)}\n", soft_wrap=True)
        rows = ((key, default, kind, text) for key, (kind, default, text) in method_options(name).items())
        console.print(options_table(rows))
        return
    table = listing("method", "what it does")
    for one in list_methods():
        table.add_row(one, summary_of(one))
    console.print(table)
    table = listing("\npublished system", "\nwhat it does", "\nreference", "\nmarks")
    systems = [entry for entry in LEARNERS.entries() if kind_of(entry) != "method"]
    for entry in sorted(systems, key=lambda entry: kind_of(entry) != "system"):
        facts = {"reference": "", "marks": "", **entry.facts}
        table.add_row(entry.name, summary_of(entry.name), facts["reference"], facts["marks"])
    console.print(table)
    moving = ", ".join(list_methods("network-system"))
    console.print(
        f"\nMarks: {'; '.join(f'{mark}: {meaning}' for mark, meaning in MARKS.items())}.\n"
        "`subspan methods NAME` explains one and its options; run it as subspan bench --method NAME:option=value,... "
        f"What is trained on the base classes first is made by subspan train --system NAME; so are the results of "
        f"{moving}, which move the network and need images.",
        soft_wrap=True,
    )


def listing(name: str, *others: str) -> Table:
    """An empty table whose first column, names that people type, is never broken."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(name, no_wrap=True)
    for column in others:
        table.add_column(column, overflow="fold")
    return table


def options_table(options: Iterable[tuple[str, object, str, str]], value: str = "default") -> Table:
    """Options, explained one by one: name, value, what it takes, meaning."""
    table = listing("option", value, "takes", "meaning")
    for name, given, kind, text in options:
        table.add_row(name, _text(given), kind, text)
    return table


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
