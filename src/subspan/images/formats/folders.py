"""Any folder of class folders, also with train, val and test folders above them."""

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from subspan.images.classfiles import Found, ImageFile, by_folder, find, image_set_of, is_image, read_file
from subspan.images.formats.registry import register_format
from subspan.images.imageset import ImageSet
from subspan.images.options import ReadOptions

ANY_CLASSES = True
TAKES = "a folder of class folders (<class>/<file>.jpg, or <train|val|test>/<class>/<file>.jpg)"


@register_format("folders")
def recognise(path: Path) -> bool:
    """Whether any image lies below the folder."""
    return path.is_dir() and any(map(is_image, _walk(path)))


def read(path: Path, options: ReadOptions) -> ImageSet:
    """All images below ``path``; the folder an image lies in is its class."""
    return image_set_of(by_folder(find_images(path), path), path, options)


def find_images(path: Path) -> Found:
    """All visible images below a folder, and what else is there."""
    return find(ImageFile(name, partial(read_file, path / name)) for name in _walk(path))


def _walk(path: Path) -> Iterator[str]:
    """The names of all files below a folder, and of all folders with a '/' at their end."""
    for folder, folders, names in os.walk(path, followlinks=True):  # class folders are often links
        relative = Path(folder).relative_to(path)
        yield from ((relative / name).as_posix() for name in names)
        yield from ((relative / name).as_posix() + "/" for name in folders)
