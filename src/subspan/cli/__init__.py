"""The command line: one file per command; ``subspan --help`` lists them."""

import importlib
import os
import pkgutil
import sys
import warnings
from functools import cache
from typing import Annotated

import typer

from subspan import __version__

app = typer.Typer(
    name="subspan",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Teach a trained classifier new classes from a few examples, without retraining and without forgetting.",
    epilog="Example: `subspan bench --report report` runs every method on the bundled features and writes a page.",
)


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


@cache  # once, however often a program calls main
def _add_commands() -> None:
    for module in sorted(m.name for m in pkgutil.iter_modules(__path__)):
        command = importlib.import_module(f"{__name__}.{module}")
        if hasattr(command, "register"):
            command.register(app)


def main() -> None:
    """Run the command line. Bad input ends in one sentence and exit status 2, never in a traceback."""
    warnings.showwarning = lambda message, *_, **__: print(f"Warning: {message}", file=sys.stderr)
    _add_commands()
    try:
        app()
    except (ValueError, OSError) as error:
        if os.environ.get("SUBSPAN_TRACEBACK"):
            raise
        print(f"Error: {_sentence(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        sys.exit(130)


def _sentence(error: Exception) -> str:
    """What went wrong, for people: the system's own words about a file come after its name, without their number.

    >>> _sentence(FileNotFoundError(2, "No such file or directory", "names.txt"))
    "'names.txt': No such file or directory"
    """
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"'{error.filename}': {error.strerror}"
    return str(error)
