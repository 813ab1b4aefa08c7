"""The commands that show what a catalogue knows and put it right: from classes to undo, merge and backup."""

from pathlib import Path
from typing import Annotated

import typer

from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.records import SessionEntry
from subspan.catalogue.versions import go_back
from subspan.cli.parts import inputs, tables
from subspan.cli.parts.catalogues import CataloguePath, Json, Network, Trust, author, show
from subspan.files import store
from subspan.progress import shown_stages

Known = Annotated[str, typer.Argument(metavar="CLASS", help="Class as it is called now.")]
To = Annotated[str | None, typer.Option(metavar="VERSION", help="Id of a version, or its beginning (`sessions`).")]


def classes(catalogue: CataloguePath, as_json: Json = False) -> None:
    """List the classes of a catalogue.

    Example: subspan classes birds.subspan
    """
    entries = Catalogue.open(catalogue).classes()
    show(entries, as_json, tables.classes_table(entries))


def sessions(catalogue: CataloguePath, as_json: Json = False) -> None:
    """List the sessions: when, which classes, how many examples, old classes before and after.

    `subspan log` is the same command.

    Example: subspan sessions birds.subspan
    """
    entries = Catalogue.open(catalogue).sessions()
    show(entries, as_json, tables.sessions_table(entries))


def undo(catalogue: CataloguePath, to: To = None, as_json: Json = False) -> None:
    """Take the last session back, or all that followed a version; also where it is damaged; `redo` brings it back.

    Example: subspan undo birds.subspan
    """
    entry = go_back(catalogue, to=to)[1]
    _show_session(entry, as_json, "Undone: session" if to is None else "Undone: all from session")


def redo(catalogue: CataloguePath, to: To = None, as_json: Json = False) -> None:
    """Bring back what was undone last, or any version that was not yet pruned.

    Example: subspan redo birds.subspan
    """
    _show_session(Catalogue.open(catalogue).redo(to=to), as_json)


def rename(
    catalogue: CataloguePath,
    old: Known,
    new: Annotated[str, typer.Argument(help="Its new name.")],
    as_json: Json = False,
) -> None:
    """Give a class another name.

    Example: subspan rename birds.subspan "grey tit" "great tit"
    """
    _show_session(Catalogue.open(catalogue).rename(old, new, author()), as_json)


def merge(
    catalogue: CataloguePath,
    name: Known,
    other: Annotated[str, typer.Argument(help="Class that becomes part of it.")],
    as_json: Json = False,
) -> None:
    """Make one class of two, as if their photographs had been taught so.

    Example: subspan merge birds.subspan robin "robin (young)"
    """
    _show_session(Catalogue.open(catalogue).merge(name, other, author()), as_json)


def remove(catalogue: CataloguePath, name: Known, as_json: Json = False) -> None:
    """Forget a class; `undo` brings it back until `prune`.

    Example: subspan remove birds.subspan "grey tit"
    """
    _show_session(Catalogue.open(catalogue).remove(name, author()), as_json)


def unteach(
    catalogue: CataloguePath,
    name: Known,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Photographs that were taught as it.")],
    backbone: Network = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Take photographs back that were taught as a class, as if it had been taught the others only.

    Example: subspan unteach birds.subspan robin photos/robin/dsc_0007.jpg
    """
    opened = Catalogue.open(catalogue, backbone, trust=trust)
    with shown_stages() as progress:
        entry = opened.unteach(name, list(inputs.image_files(images)), author(), progress=progress)
    _show_session(entry, as_json)


def prune(
    catalogue: CataloguePath,
    keep: Annotated[int | None, typer.Option(help="Keep so many of the last; default all not undone.")] = None,
    as_json: Json = False,
) -> None:
    """Remove versions of undone sessions from the disk, and with --keep old ones too.

    Example: subspan prune birds.subspan --keep 10
    """
    removed = Catalogue.open(catalogue).prune(keep)
    show(removed, as_json, f"Removed {tables.count(len(removed), 'version')}.")


def verify(catalogue: CataloguePath, as_json: Json = False) -> None:
    """Read every version and check all of it against its checksums; exit status 2 where one is damaged.

    Example: subspan verify birds.subspan
    """
    found = store.verify(catalogue)
    lines = [f"{id[:12]}: {'whole' if wrong is None else wrong}" for id, wrong in found.items()]
    show(found, as_json, *lines)
    if any(found.values()):
        raise typer.Exit(2)


def backup(
    catalogue: CataloguePath,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="Folder to make, or an earlier backup of it.")],
    as_json: Json = False,
) -> None:
    """Copy a catalogue with all its versions, each checked on the way; an earlier backup gets what it lacks.

    Example: subspan backup birds.subspan /mnt/disk/birds.subspan
    """
    pointer = store.copy(catalogue, target)
    show(pointer, as_json, f"{target}: {tables.count(len(pointer.chain), 'version')}, whole.")


def _show_session(entry: SessionEntry, as_json: bool, begin: str = "Session") -> None:
    mark = "," if ":" in begin else ":"
    show(entry, as_json, f"{begin} {entry.session}{mark} {tables.what(entry)}.")
