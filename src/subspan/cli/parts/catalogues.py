"""What the commands for photographs share: their arguments and options, and how a result is printed."""

import dataclasses
import getpass
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from subspan.cli import visible
from subspan.cli.parts import tables

CataloguePath = Annotated[Path, typer.Argument(metavar="CATALOGUE", help="Catalogue, a folder NAME.subspan.")]
FOLDER = "Folder of class folders, or a zip of them."
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Descriptions = Annotated[Path | None, typer.Option(help="JSON file, class name to description, for language methods.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave images out that cannot be read, and say which.")]
Network = Annotated[
    str | None,
    typer.Option("--backbone", help="Where the catalogue's network is now, if it moved; its weights must be the same."),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Load what it names outside its folder, as its network: trust whoever made it.")
]
Names = Annotated[
    Literal["folder", "path"], typer.Option(help="Name a class by its folder, or by the path of nested ones.")
]


def author() -> str | None:
    """Who is at work, for the log."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # nobody has this number here
        return None


def show(result: Any, as_json: bool, *text: Any) -> None:
    """Print a result, or a list of them, as JSON or as its text."""
    if as_json:
        typer.echo(visible(json.dumps(result, default=dataclasses.asdict, indent=1, ensure_ascii=False)))
    else:
        tables.show(*text)
