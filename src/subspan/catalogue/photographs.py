"""Photographs as people have them: a folder of class folders, or zips of them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from subspan.images.classfiles import ImageFile, by_folder, open_images
from subspan.images.formats.folders import TAKES
from subspan.images.imageset import DataError
from subspan.images.lists import describe_classes

ClassPhotographs = dict[str, list[ImageFile]]  # by class name, in order of file names


@contextlib.contextmanager
def open_class_photographs(path: Path, by_path: bool = False) -> Iterator[ClassPhotographs]:
    """The photographs below a folder or in zips, by class; readable while the context lasts.

    The folder a photograph lies in is its class, or by path that with the folders above. WordNet ids become names where
    the package or a list beside the data knows them.
    """
    if not path.exists():
        raise DataError(f"there is nothing at {path}")
    with open_images(path) as found:
        entries = by_folder(found, path, f"; expected {TAKES}", by_path)
        entries.sort(key=lambda entry: (entry.key, entry.file))
        keys = list(dict.fromkeys(entry.key for entry in entries))
        name_of = dict(zip(keys, describe_classes(keys, path)[0], strict=True))
        photographs: ClassPhotographs = {}
        for entry in entries:
            photographs.setdefault(name_of[entry.key], []).append(entry)
        yield photographs
