"""Class names for wnids, from the lists that come with the data sets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from subspan.data.lists import find_beside, read_json

WNID = re.compile(r"n\d{8}")


def all_wnids(keys: Sequence[str]) -> bool:
    """Whether every key is a WordNet id such as ``n01532829``."""
    return bool(keys) and all(WNID.fullmatch(key) for key in keys)


def describe_classes(keys: Sequence[str], source: Path) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Class names and wnids (or None) of these folder names or labels.

    Where all keys are wnids their names come from ``classes.json`` (objects with ``wnid`` and ``name``) or
    ``class_labels.txt`` (lines of wnid and name with underscores) beside the data; a wnid without a name, or with one
    that is not its own, is its own name.
    """
    if not all_wnids(keys):
        return tuple(keys), None
    known = _names_beside(source)
    names = [known.get(key, key) for key in keys]
    unique = tuple(name if names.count(name) == 1 else key for key, name in zip(keys, names, strict=True))
    return unique, tuple(keys)


def _names_beside(source: Path) -> dict[str, str]:
    path = find_beside(source, ("classes.json", "class_labels.txt"))
    if path is None:
        return {}
    if path.suffix == ".json":
        rows = read_json(path)
        return {row["wnid"]: row["name"] for row in rows if isinstance(row, dict) and {"wnid", "name"} <= set(row)}
    pairs = [line.strip().lower().split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines()]
    return {pair[0]: pair[1].replace("_", " ") for pair in pairs if len(pair) == 2}
