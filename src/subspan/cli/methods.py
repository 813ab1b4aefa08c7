"""``subspan methods``: what there is to choose from, listed without importing any of it."""

import inspect
from typing import Annotated

import typer

from subspan.cli.parts.flags import ImportOption
from subspan.cli.parts.tables import options_table, show, table
from subspan.learners.published import MARKS
from subspan.learners.registry import LEARNERS, kind_of, list_methods, method_class, method_options, summary_of


def methods(
    name: Annotated[str | None, typer.Argument(help="A method or system, to explain with its options.")] = None,
    imports: ImportOption = None,
) -> None:
    """List the methods and the published systems; with a name, what one does and its options.

    `subspan systems` is the same command.

    Examples:

        subspan methods

        subspan methods semantic
    """
    if name is not None:
        found = method_class(name)
        show(f"{name}: {found.summary}\n\n{inspect.getdoc(found)}\n")
        show(options_table((key, default, kind, text) for key, (kind, default, text) in method_options(name).items()))
        return
    columns = ("\npublished system", "\nwhat it does", "\nreference", "\nmarks")
    systems = [entry for entry in LEARNERS.entries() if kind_of(entry) != "method"]
    systems.sort(key=lambda entry: kind_of(entry) != "system")
    rows = [(e.name, summary_of(e.name), e.facts.get("reference"), e.facts.get("marks")) for e in systems]
    show(
        table(("method", "what it does"), [(one, summary_of(one)) for one in list_methods()], wrap=("what it does",)),
        table(columns, rows, wrap=columns[1:]),
        f"\nMarks: {'; '.join(f'{mark}: {meaning}' for mark, meaning in MARKS.items())}.\n"
        "`subspan methods NAME` explains one and its options; run it as subspan bench --method NAME:option=value,... "
        "What is trained on the base classes first is made by subspan train --system NAME; so are the results of "
        f"{', '.join(list_methods('network-system'))}, which move the network and need images.",
    )
