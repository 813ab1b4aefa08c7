"""From named, encoded images with class keys to an :class:`ImageSet`: what folders, zips and CSVs have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from subspan.images.decode import decode_all
from subspan.images.errors import DataError
from subspan.images.imageset import ImageSet
from subspan.images.names import describe_classes
from subspan.images.options import ReadOptions

IMAGE_SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pnm"))
PART_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True)
class ImageFile:
    """One encoded image: its name below the data's folder and how to get its bytes."""

    file: str  # '/' between folders: '<class>/<name>', '<part>/<class>/<name>', or '<name>' in a flat folder
    read: Callable[[], bytes]


@dataclass(frozen=True)
class ClassFile:
    """One encoded image with its class."""

    file: str  # the name it has in the ImageSet
    key: str  # class: a wnid or a name
    read: Callable[[], bytes]
    part: str | None = None


def is_image(name: str) -> bool:
    """Whether a file name is that of a visible image."""
    path = PurePosixPath(name)
    hidden = any(step.startswith((".", "__MACOSX")) for step in path.parts)
    return path.suffix.lower() in IMAGE_SUFFIXES and not hidden


def by_folder(image: ImageFile, source: Path) -> ClassFile:
    """The image with the folder it lies in as class; a folder named train, val, ... above that is its part."""
    folders = PurePosixPath(image.file).parts[:-1]
    if not folders:
        raise DataError(f"image {image.file} of {source} lies in no class folder")
    part = next((PART_NAMES[folder.lower()] for folder in folders[:-1] if folder.lower() in PART_NAMES), None)
    return ClassFile(image.file, folders[-1], image.read, part)


def image_set_of(entries: Sequence[ClassFile], source: Path, options: ReadOptions) -> ImageSet:
    """Decode all entries, in order of class key and file name; with ``options.parts`` only those parts."""
    if options.parts is not None:
        entries = [entry for entry in entries if entry.part in options.parts]
    if not entries:
        raise DataError(
            f"{source} holds no images" + (f" of parts {', '.join(options.parts)}" if options.parts else "")
        )
    entries = sorted(entries, key=lambda entry: (entry.key, entry.file))
    keys = list(dict.fromkeys(entry.key for entry in entries))
    class_of = {key: i for i, key in enumerate(keys)}
    names, wnids = describe_classes(keys, source)
    files = tuple(entry.file for entry in entries)
    return ImageSet(
        images=decode_all(
            lambda i: entries[i].read(), files, options.size, options.fit, options.workers, options.progress
        ),
        labels=np.array([class_of[entry.key] for entry in entries], dtype=np.int64),
        class_names=names,
        wnids=wnids,
        files=files,
        parts=tuple(entry.part or "" for entry in entries) if any(entry.part for entry in entries) else None,
        source=source,
    )
