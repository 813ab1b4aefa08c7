"""A catalogue made again with another network: the same sessions, from photographs of all its classes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.records import InitReport, SessionEntry
from subspan.files import store
from subspan.pretrained.backbone import Image


def rebase(
    path: str | Path, photographs: Mapping[str, Sequence[Image]], backbone: str, **how: Any
) -> tuple[Catalogue, InitReport]:
    """Write the catalogue anew in its place; until the last moment it is the old one.

    Parameters
    ----------
    photographs : class name to photographs, of all classes that the catalogue has.
    how : ``skip_bad`` and ``progress``, as for `Catalogue.create`.
    """
    old = Catalogue.open(path)
    known = {entry.name: entry.description for entry in old.classes()}
    if lacking := known.keys() - photographs.keys():
        raise CatalogueError(
            f"a catalogue is made again from photographs of all its classes; '{min(lacking)}' has none"
        )
    if unknown := photographs.keys() - known.keys():
        raise CatalogueError(f"the catalogue has no class '{min(unknown)}'; make it again without, then add it")
    said = {name: text for name, text in known.items() if text}
    sessions = [{name: photographs[name] for name in names} for names in taught_together(old.sessions())]
    options = replace(old.options, backbone=backbone)
    with TemporaryDirectory(dir=Path(path).absolute().parent, prefix=".rebase-") as folder:
        place = Path(folder) / "made.subspan"
        made, report = Catalogue.create(place, sessions[0], options, descriptions=said, **how)
        for session in sessions[1:]:
            made.add_all(session, {name: said[name] for name in session if name in said}, new=True, **how)
        versions = [store.load_version(place, id) for id in store.read(place).chain]
        store.write(path, versions, versions[-1].id, expected=old.version)
    return Catalogue.open(path, made.backbone), report


def taught_together(log: Sequence[SessionEntry]) -> list[list[str]]:
    """The present names of the classes of the base session, and of every later one that brought some."""
    sessions: list[list[str]] = []
    for entry in log:
        first, last = entry.classes[0], entry.classes[-1]
        if entry.kind in ("base", "add_classes"):
            sessions.append(list(entry.classes))
        elif entry.kind == "rename_class":
            sessions = [[last if name == first else name for name in names] for names in sessions]
        elif entry.kind in ("remove_class", "merge_classes"):
            sessions = [[name for name in names if name != last] for names in sessions]
    return [names for names in sessions if names]
