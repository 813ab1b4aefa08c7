"""Zips of class folders: one zip or several that together hold a data set, such as images-0.zip .. images-3.zip."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from subspan.images.classfiles import Found, ImageFile, by_folder, find, image_set_of
from subspan.images.errors import DataError
from subspan.images.formats.registry import register_format
from subspan.images.imageset import ImageSet
from subspan.images.options import ReadOptions

ANY_CLASSES = True
TAKES = "zips of class folders (NAME.zip with <class>/<file>.jpg), one or several in a folder"


@register_format("zips")
def recognise(path: Path) -> bool:
    """Whether the path is a zip or a folder with zips."""
    return bool(_find_zips(path))


def read(path: Path, options: ReadOptions) -> ImageSet:
    """All images of all zips; files are named as in the zips, and no file may be in two of them."""
    with open_images(path) as found:
        return image_set_of(by_folder(found, path), path, options)


@contextmanager
def open_images(path: Path) -> Iterator[Found]:
    """The images of all zips, readable while the context lasts, and what else is there."""
    with ExitStack() as stack:
        entries: list[ImageFile] = []
        for zip_path in _find_zips(path):
            try:
                archive = stack.enter_context(zipfile.ZipFile(zip_path))
            except (OSError, zipfile.BadZipFile) as error:
                raise DataError(f"{zip_path} is not a whole zip file: {error}") from error
            entries += [
                ImageFile(info.filename, partial(_bytes, archive, info, zip_path)) for info in archive.infolist()
            ]
        yield find(entries)


def _find_zips(path: Path) -> list[Path]:
    return [path] if path.suffix.lower() == ".zip" and path.is_file() else sorted(path.glob("*.zip"))


def _bytes(archive: zipfile.ZipFile, info: zipfile.ZipInfo, zip_path: Path) -> bytes:
    try:
        return archive.read(info)
    except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"image {info.filename} of {zip_path} cannot be read: {error}") from error
