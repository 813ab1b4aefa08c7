"""``subspan systems``: the published systems, where each comes from and how far its description was checked."""

import inspect
from typing import Annotated

import typer
from rich.console import Console

from subspan.cli import app
from subspan.cli.methods import listing, options_table
from subspan.learners.parts.system import MARKS, System
from subspan.learners.registry import list_network_systems, list_systems, method_class


@app.command()
def systems(
    name: Annotated[str | None, typer.Argument(help="A system; its equations and options are explained.")] = None,
) -> None:
    """List the published systems; with a name, what one does and its options.

    Examples:

        subspan systems

        subspan systems teen
    """
    console = Console(highlight=False, markup=False)
    if name is not None:
        console.print(f"{name}: {inspect.getdoc(_system(name))}\n", soft_wrap=True)
        console.print(options_table(name))
        return
    table = listing("system", "what it does", "reference", "marks")
    for one in (*list_systems(), *list_network_systems()):
        system = _system(one)
        table.add_row(one, system.summary, system.reference, system.marks)
    console.print(table)
    console.print("\nMarks: " + "; ".join(f"{mark}: {meaning}" for mark, meaning in MARKS.items()) + ".")
    console.print(
        "`subspan systems NAME` explains one and its options; run it as subspan bench --method NAME:option=value,... "
        "What is trained on the base classes first is made by subspan train --system NAME; so are the results of "
        f"{', '.join(list_network_systems())}, which move the network and need images.",
        soft_wrap=True,
    )


def _system(name: str) -> type[System]:
    found = method_class(name)
    if not issubclass(found, System):
        raise ValueError(
            f"'{name}' is no system; the systems are {', '.join([*list_systems(), *list_network_systems()])}"
        )
    return found
