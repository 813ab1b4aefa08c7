"""The lists that come with data sets: finding and reading them, and the class names that they give to wnids."""

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from subspan.images.imageset import DataError, ImageSet, UInt8Array

WNID = re.compile(r"n\d{8}")  # of WordNet, such as n01532829
COLUMNS = {"filename", "label"}  # of Ravi and Larochelle's CSVs
ENCODING = "utf-8-sig"  # spreadsheets begin a CSV with a byte order mark


def find_list(images: ImageSet, given: Path | str | None, names: tuple[str, ...], what: str) -> Path:
    """``given``, or the first of ``names`` found beside the images (there, in ``splits/`` or ``split/``, or one up)."""
    if given is not None:
        if not Path(given).is_file():
            raise DataError(f"{what}: there is no file {given}")
        return Path(given)
    path = None if images.source is None else find_beside(images.source, names)
    if path is None:
        raise DataError(f"{what} needs {' or '.join(names)} beside the images ({images.source}) or its path given")
    return path


def find_beside(source: Path, names: tuple[str, ...]) -> Path | None:
    """The first of ``names`` in the data directory, its ``splits/`` or ``split/``, or in those of its parent."""
    directory = source if source.is_dir() else source.parent
    folders = [root / folder for root in (directory, directory.parent) for folder in ("", "splits", "split")]
    return next((path for folder in folders for name in names if (path := folder / name).is_file()), None)


def read_json(path: Path) -> Any:
    """What a ``.json`` or ``.json.gz`` file holds."""
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error


def read_csv(path: Path) -> list[tuple[str, str]]:
    """File name and label of every row of a CSV with the header ``filename,label``."""
    rows = []
    try:
        with path.open(newline="", encoding=ENCODING) as file:
            table = csv.DictReader(file)
            columns = table.fieldnames or ()
            if not set(columns) >= COLUMNS:
                raise DataError(f"{path} must have the columns filename and label, got {', '.join(columns) or 'none'}")
            for row in table:
                if not row["filename"] or not row["label"]:
                    raise DataError(f"line {table.line_num} of {path} must give a filename and a label")
                rows.append((row["filename"], row["label"]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table of filename and label: {error}") from error
    return rows


def image_set(
    images: UInt8Array, keys: Sequence[str], files: Sequence[str], parts: Sequence[str | None], source: Path
) -> ImageSet:
    """Images (n, height, width, 3) with their class keys, names and parts (n,) each; classes by sorted key."""
    classes = sorted(set(keys))
    names, wnids = describe_classes(classes, source)
    class_of = {key: i for i, key in enumerate(classes)}
    return ImageSet(
        images=images,
        labels=np.array([class_of[key] for key in keys], dtype=np.int64),
        class_names=names,
        wnids=wnids,
        files=tuple(files),
        parts=tuple(part or "" for part in parts) if any(parts) else None,
        source=source,
    )


def describe_classes(keys: Sequence[str], source: Path) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """Class names and wnids (or None) of these folder names or labels, (C,) each.

    Names of wnids come from ``classes.json`` (objects with ``wnid``, ``name`` and perhaps ``words``) or
    ``class_labels.txt`` (lines of wnid and name with underscores) beside the data; a wnid without a name of its own is
    its own name. Where all keys are ``words`` of that list, as in tieredImageNet's labels, they give the wnids.
    """
    rows = _rows_beside(source)
    if not (keys and all(map(WNID.fullmatch, keys))):
        wnid_of = {row["words"]: row["wnid"] for row in rows if "words" in row}
        if not keys or not set(keys) <= set(wnid_of):
            return tuple(keys), None
        keys = [wnid_of[key] for key in keys]
    name_of = {row["wnid"]: row["name"] for row in rows}
    names = [name_of.get(key, key) for key in keys]
    times = Counter(names)
    return tuple(name if times[name] == 1 else key for key, name in zip(keys, names, strict=True)), tuple(keys)


def _rows_beside(source: Path) -> list[dict[str, str]]:
    path = find_beside(source, ("classes.json", "class_labels.txt"))
    if path is None:
        return []
    if path.suffix == ".json":
        return [row for row in read_json(path) if isinstance(row, dict) and {"wnid", "name"} <= set(row)]
    pairs = [line.strip().lower().split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines()]
    return [{"wnid": pair[0], "name": pair[1].replace("_", " ")} for pair in pairs if len(pair) == 2]
