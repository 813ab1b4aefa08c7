"""One verb for every format of ``formats/``: ``read_images`` recognises what a path holds."""

import dataclasses
import tarfile
import tempfile
from importlib import import_module
from pathlib import Path

from subspan.images.decode import Fit, ReadOptions
from subspan.images.imageset import DataError, ImageSet
from subspan.registry import Registry

FORMATS = Registry("image format", "register_format", ("subspan.images.formats",), "subspan.images")
# Decorates ``recognise(path) -> bool`` of a module that has ``read(path, options) -> ImageSet`` and ``TAKES``, what it
# reads in words. ``ANY_CLASSES`` marks those that take any folders of classes: others are asked before them.
register_format = FORMATS.named


def read_images(
    path: Path | str,
    *,
    size: int | None = 84,
    fit: Fit = "crop",
    progress: bool = True,
) -> ImageSet:
    """All images at ``path`` as uint8 (n, size, size, 3), whatever the format.

    Parameters
    ----------
    path : file or folder of any format that is registered, or a tar archive of such a folder
    size : side of the square images; ``None`` keeps the stored size, which must then be one
    fit : ``'crop'`` scales the shorter side and cuts the centre out, ``'squash'`` scales both sides
    progress : show a bar when reading lasts over two seconds
    """
    place = Path(path)
    if not place.exists():
        raise DataError(f"there is nothing at {place}")
    options = ReadOptions(size, fit, progress)
    if place.is_file() and tarfile.is_tarfile(place):
        with tempfile.TemporaryDirectory() as folder:
            try:
                with tarfile.open(place) as archive:
                    archive.extractall(folder, filter="data")
            except (OSError, EOFError, tarfile.TarError) as error:
                raise DataError(f"{place} is not a whole tar archive: {error}") from error
            return dataclasses.replace(_read(Path(folder), options), source=place)
    return _read(place, options)


def _read(place: Path, options: ReadOptions) -> ImageSet:
    """By the first format that recognises it."""
    modules = [import_module(entry.path.partition(":")[0]) for entry in FORMATS.entries()]
    modules.sort(key=lambda module: getattr(module, "ANY_CLASSES", False))
    for module in modules:
        if module.recognise(place):
            return module.read(place, options)
    names = sorted(entry.name + "/" * entry.is_dir() for entry in place.iterdir()) if place.is_dir() else []
    held = f"{len(names)} entries ({', '.join(names[:5])}{', ...' * (len(names) > 5)})" if names else "nothing"
    held = held if place.is_dir() else f"a file of {place.stat().st_size} bytes"
    raise DataError(f"{place} holds {held}; what can be read: {'; '.join(module.TAKES for module in modules)}")
