"""Any folder of class folders, also with train, val and test folders above them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from subspan.data.classfiles import ClassFile, class_and_part, image_set_of, is_image
from subspan.data.errors import DataError
from subspan.data.imageset import ImageSet
from subspan.data.options import ReadOptions

TAKES = "a folder of class folders: <class>/<file>.jpg, or <train|val|test>/<class>/<file>.jpg"


def image_files(path: Path) -> list[Path]:
    """All visible images below a folder, relative to it, sorted."""
    found = []
    for folder, _, names in os.walk(path, followlinks=True):
        relative = Path(folder).relative_to(path)
        found += [relative / name for name in names if is_image((relative / name).as_posix())]
    return sorted(found)


def recognise(path: Path) -> bool:
    return path.is_dir() and any(
        is_image(name) for folder, _, names in os.walk(path, followlinks=True) if Path(folder) != path for name in names
    )


def read(path: Path, options: ReadOptions) -> ImageSet:
    """All images below ``path``; the folder an image lies in is its class."""
    entries = []
    for file in image_files(path):
        if len(file.parts) == 1:
            raise DataError(f"image {file} lies in {path} itself, in no class folder")
        key, part = class_and_part(file.parts[:-1])
        entries.append(ClassFile(file.as_posix(), key, partial(read_bytes, path / file), part))
    return image_set_of(entries, path, options)


def read_bytes(path: Path) -> bytes:
    """The bytes of an image file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"image {path} cannot be read: {error.strerror}") from error
