"""Class names for wnids, from the lists that come with the data sets."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from subspan.images.formats.lists import find_beside, read_json

WNID = re.compile(r"n\d{8}")  # of WordNet, such as n01532829


def describe_classes(keys: Sequence[str], source: Path) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Class names and wnids (or None) of these folder names or labels, (C,) each.

    Names of wnids come from ``classes.json`` (objects with ``wnid``, ``name`` and perhaps ``words``) or
    ``class_labels.txt`` (lines of wnid and name with underscores) beside the data; a wnid without a name of its own is
    its own name. Where all keys are ``words`` of that list, as in tieredImageNet's labels, they give the wnids.
    """
    rows = _rows_beside(source)
    if not (keys and all(WNID.fullmatch(key) for key in keys)):
        wnid_of = {row["words"]: row["wnid"] for row in rows if "words" in row}
        if not keys or not set(keys) <= set(wnid_of):
            return tuple(keys), None
        keys = [wnid_of[key] for key in keys]
    name_of = {row["wnid"]: row["name"] for row in rows}
    names = [name_of.get(key, key) for key in keys]
    times = Counter(names)
    unique = tuple(name if times[name] == 1 else key for key, name in zip(keys, names, strict=True))
    return unique, tuple(keys)


def _rows_beside(source: Path) -> list[dict[str, str]]:
    path = find_beside(source, ("classes.json", "class_labels.txt"))
    if path is None:
        return []
    if path.suffix == ".json":
        rows = read_json(path)
        return [row for row in rows if isinstance(row, dict) and {"wnid", "name"} <= set(row)]
    pairs = [line.strip().lower().split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{"wnid": pair[0], "name": pair[1].replace("_", " ")} for pair in pairs if len(pair) == 2]
