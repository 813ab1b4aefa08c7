"""The command line: each command is a function of its name, with its help as docstring, in the file named here.

Lists are made of what the source of these files says; a file is imported when a command in it runs. PyTorch and its
like take seconds to import: nobody who asks for help, or for another command, should wait for them.
"""

import ast
import os
import pkgutil
import sys
import warnings
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from subspan import __version__, extras

COMMANDS = {  # of each command the title that it is listed below, and its file
    name: (title, file)
    for title, file, names in (
        ("Photographs", "catalogue", "init add predict evaluate review rebase export backbones"),
        ("Photographs", "correct", "classes sessions undo redo rename merge remove unteach prune verify backup"),
        ("Photographs", "serve", "serve"),
        ("Photographs", "compare", "compare"),
        ("Research", "bench", "bench"),
        ("Research", "show", "show"),
        ("Research", "run", "run"),
        ("Research", "sweep", "sweep"),
        ("Research", "methods", "methods"),
        ("Research", "features", "convert"),
        ("Training", "train", "train"),
        ("Training", "features", "extract pack"),
        ("Training", "recipes", "recipes"),
    )
    for name in names.split()
}
EXPERIMENTS = {"multi-session": ("Commands", "reproduce"), "single-session": ("Commands", "reproduce")}
OTHER_NAMES = {"log": "sessions", "systems": "methods"}  # what commands answer to, too
INTERRUPTED = 130  # the status with which typer ends a command at Ctrl-C, without a word
MARKUP = "markdown"  # of help texts


def lazy_group(files: dict[str, tuple[str, str]]) -> type[TyperGroup]:
    """The class of a group of commands that are listed from their source and imported when they run."""

    class LazyGroup(TyperGroup):
        def __init__(self, *, commands: dict[str, Any], **settings: Any) -> None:
            listed = {
                name: TyperCommand(name, help=_docstrings(file)[name], rich_help_panel=title)
                for name, (title, file) in files.items()
            }
            super().__init__(commands={**listed, **commands}, **settings)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """The command of this name, or of one that it had, as it is listed."""
            return super().get_command(ctx, OTHER_NAMES.get(cmd_name, cmd_name))

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            """The command itself, which is to run."""
            given, command, rest = super().resolve_command(ctx, args)
            name = getattr(command, "name", None)
            return given, load(files[name][1], name) if name in files else command, rest

    return LazyGroup


def load(file: str, name: str) -> Any:
    """A command, with all that its file imports."""
    one = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
    one.command(name)(getattr(import_module(f"{__name__}.{file}"), name.replace("-", "_")))
    return get_command(one)


@cache
def _docstrings(file: str) -> dict[str, str | None]:
    source = ast.parse(pkgutil.get_data(__name__, f"{file}.py") or b"").body
    functions = [node for node in source if isinstance(node, ast.FunctionDef)]
    return {node.name.replace("_", "-"): ast.get_docstring(node) for node in functions}


app = typer.Typer(
    name="subspan",
    cls=lazy_group(COMMANDS),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
    help="Teach a trained classifier new classes from a few examples, without retraining and without forgetting.",
    epilog="Example: `subspan bench --report report` runs every method on the bundled features and writes a page. "
    "`subspan COMMAND --help` has an example of each.",
)
experiments = typer.Typer(
    name="reproduce",
    cls=lazy_group(EXPERIMENTS),
    no_args_is_help=True,
    rich_markup_mode=MARKUP,
    help="Rebuild the tables and pictures of the paper from feature files.",
    epilog="Example: `subspan reproduce multi-session --help` says what its tables are made from.",
)
app.add_typer(experiments, rich_help_panel="Research")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"subspan {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. Bad input ends in one sentence and exit status 2, never in a traceback."""
    warnings.showwarning = lambda message, *_, **__: print(visible(f"Warning: {message}"), file=sys.stderr)
    try:
        app()
    except (ValueError, OSError, ModuleNotFoundError) as error:
        said = extras.sentence(error) if isinstance(error, ModuleNotFoundError) else _sentence(error)
        if said is None or os.environ.get("SUBSPAN_TRACEBACK"):
            raise
        print(visible(f"Error: {said}"), file=sys.stderr)
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print("Stopped.", file=sys.stderr)
        raise


def visible(text: str) -> str:
    """Text that leaves a terminal as it is: control characters and what turns text about are written as escapes.

    >>> print(visible("robin\\x1b[2J"))
    robin\\x1b[2J
    """
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _sentence(error: Exception) -> str:
    """What went wrong, for people: the system's own words about a file come after its name, without their number.

    >>> _sentence(FileNotFoundError(2, "No such file or directory", "names.txt"))
    "'names.txt': No such file or directory"
    """
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"'{error.filename}': {error.strerror}"
    return str(error)
