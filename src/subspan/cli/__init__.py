"""The command line: one file per command. A function below ``@app.command()`` is one, its docstring the help.

``subspan --help`` lists it from there on; its file is imported when it runs.
"""

import os
import sys
import warnings
from typing import Annotated

import typer

from subspan import __version__
from subspan.cli.lazy import lazy_group

PHOTOGRAPHS, RESEARCH, TRAINING = PARTS = ("Photographs", "Research", "Training")  # of the list of commands
OTHER_NAMES = {"log": "sessions", "systems": "methods"}  # what commands answer to, too
MARKUP = "markdown"  # of help texts
INTERRUPTED = 130  # the status with which typer ends a command at Ctrl-C, without a word

app = typer.Typer(
    name="subspan",
    cls=lazy_group("app"),
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
    cls=lazy_group("experiments"),
    no_args_is_help=True,
    rich_markup_mode=MARKUP,
    help="Rebuild the tables and pictures of the paper from feature files.",
    epilog="Example: `subspan reproduce multi-session --help` says what its tables are made from.",
)
app.add_typer(experiments, rich_help_panel=RESEARCH)


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
    warnings.showwarning = lambda message, *_, **__: print(f"Warning: {message}", file=sys.stderr)
    try:
        app()
    except (ValueError, OSError) as error:
        if os.environ.get("SUBSPAN_TRACEBACK"):
            raise
        print(f"Error: {_sentence(error)}", file=sys.stderr)
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print("Stopped.", file=sys.stderr)
        raise


def _sentence(error: Exception) -> str:
    """What went wrong, for people: the system's own words about a file come after its name, without their number.

    >>> _sentence(FileNotFoundError(2, "No such file or directory", "names.txt"))
    "'names.txt': No such file or directory"
    """
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"'{error.filename}': {error.strerror}"
    return str(error)
