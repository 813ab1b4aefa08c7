"""Finding and reading the list files on which published splits rest."""

import gzip
import json
from pathlib import Path
from typing import Any

from subspan.images.errors import DataError
from subspan.images.imageset import ImageSet


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
    candidates = (folder / name for folder in folders for name in names)
    return next((path for path in candidates if path.is_file()), None)


def read_json(path: Path) -> Any:
    """What a ``.json`` or ``.json.gz`` file holds."""
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from error
