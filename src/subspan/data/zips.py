"""Zips of class folders: one zip or several that together hold a data set, such as images-0.zip .. images-3.zip."""

from __future__ import annotations

import zipfile
import zlib
from contextlib import ExitStack
from functools import partial
from pathlib import Path, PurePosixPath

from subspan.data.classfiles import ClassFile, class_and_part, image_set_of, is_image
from subspan.data.errors import DataError
from subspan.data.imageset import ImageSet
from subspan.data.options import ReadOptions

TAKES = "zips of class folders: NAME.zip with entries <class>/<file>.jpg, one or several in a folder"


def find_zips(path: Path) -> list[Path]:
    """The zip itself, or the zips of a folder by name."""
    return [path] if path.suffix.lower() == ".zip" and path.is_file() else sorted(path.glob("*.zip"))


def recognise(path: Path) -> bool:
    return bool(find_zips(path))


def read(path: Path, options: ReadOptions) -> ImageSet:
    """All images of all zips; files are named as in the zips, and no file may be in two of them."""
    with ExitStack() as stack:
        entries = []
        for zip_path in find_zips(path):
            try:
                archive = stack.enter_context(zipfile.ZipFile(zip_path))
            except (OSError, zipfile.BadZipFile) as error:
                raise DataError(f"{zip_path} is not a whole zip file: {error}") from error
            entries += [_entry(archive, info, zip_path) for info in archive.infolist() if is_image(info.filename)]
        return image_set_of(entries, path, options)


def _entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, zip_path: Path) -> ClassFile:
    folders = PurePosixPath(info.filename).parts[:-1]
    if not folders:
        raise DataError(f"{zip_path}: image {info.filename} lies in no class folder")
    key, part = class_and_part(folders)
    return ClassFile(file=info.filename, key=key, read=partial(_bytes, archive, info, zip_path), part=part)


def _bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo, zip_path: Path) -> bytes:
    try:
        return archive.read(info)
    except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"image {info.filename} of {zip_path} cannot be read: {error}") from error
