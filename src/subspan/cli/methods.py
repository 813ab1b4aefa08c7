"""``subspan methods``: what there is to choose from."""

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from subspan.cli import app
from subspan.learners.registry import list_methods, method_class, method_options


@app.command()
def methods(
    name: Annotated[str | None, typer.Argument(help="A method; its options are explained one by one.")] = None,
) -> None:
    """List the methods; with a name, the options of one.

    Examples:

        subspan methods

        subspan methods semantic
    """
    console = Console(highlight=False)
    if name is None:
        table = listing("method", "what it does", "options (defaults)")
        for one in list_methods():
            table.add_row(one, method_class(one).summary, defaults_of(one))
        console.print(table)
        console.print("\n`subspan methods NAME` explains the options; use them as --method NAME:option=value,...")
        return
    console.print(f"{name}: {method_class(name).summary}\n")
    console.print(options_table(name))


def listing(name: str, *others: str) -> Table:
    """An empty table whose first column, names that people type, is never broken."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(name, no_wrap=True)
    for column in others:
        table.add_column(column, overflow="fold")
    return table


def defaults_of(name: str) -> str:
    """The options of a method as ``name=default, ...``."""
    return ", ".join(f"{key}={_text(default)}" for key, (_, default, _) in method_options(name).items())


def options_table(name: str) -> Table:
    """The options of a method, explained one by one."""
    table = listing("option", "default", "takes", "meaning")
    for key, (kind, default, text) in method_options(name).items():
        table.add_row(key, _text(default), kind, text)
    return table


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
