"""From named, encoded images with class keys to an :class:`ImageSet`: what folders, zips and CSVs have in common."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from subspan.images.decode import decode_all
from subspan.images.errors import DataError
from subspan.images.imageset import ImageSet
from subspan.images.options import ReadOptions

IMAGE_SUFFIXES = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pnm"))
LIST_SUFFIXES = frozenset((".csv", ".json", ".md", ".txt"))  # of class lists and their like, in these folders
LIST_FOLDERS = (".", "splits", "split")
SHOWN = 5  # folders without images that are named
PART_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True)
class ImageFile:
    """One encoded image: its name below the data's folder and how to get its bytes."""

    file: str  # '/' between folders: '<class>/<name>', '<part>/<class>/<name>', or '<name>' in a flat folder
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Found:
    """What lies below a folder or in zips."""

    images: list[ImageFile]  # sorted
    unread: list[str]  # other files that are visible, and folders without any image, which end in '/'

    def holds(self) -> str:
        """What of it nobody reads, as the end of a sentence; empty where that is nothing."""
        said = []
        files = [name for name in self.unread if not name.endswith("/")]
        kinds = Counter(PurePosixPath(name).suffix.lower() for name in files)
        for kind, count in kinds.most_common():
            first = next(name for name in files if PurePosixPath(name).suffix.lower() == kind)
            said.append(f"{count} {kind or 'without a suffix'} (as {first})")
        folders = [name for name in self.unread if name.endswith("/")]
        if folders:
            more = f" and {len(folders) - SHOWN} more" if len(folders) > SHOWN else ""
            said.append(f"no image in {', '.join(folders[:SHOWN])}{more}")
        return "; ".join(said)


@dataclass(frozen=True)
class ClassFile:
    """One encoded image with its class."""

    file: str  # the name it has in the ImageSet
    key: str  # class: a wnid or a name
    read: Callable[[], bytes]
    part: str | None = None


def read_file(path: Path) -> bytes:
    """The content of an image file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"image {path} cannot be read: {error.strerror}") from error


def is_image(name: str) -> bool:
    """Whether a file name is that of a visible image."""
    path = PurePosixPath(name)
    return path.suffix.lower() in IMAGE_SUFFIXES and not _hidden(path)


def find(entries: Iterable[ImageFile]) -> Found:
    """What of these files is an image; the name of a folder ends in '/'."""
    images: list[ImageFile] = []
    files: list[str] = []
    folders: set[PurePosixPath] = set()
    for entry in entries:
        path = PurePosixPath(entry.file)
        if _hidden(path):
            continue
        folders.update(path.parents)
        if entry.file.endswith("/"):
            folders.add(path)
        elif is_image(entry.file):
            images.append(entry)
        elif str(path.parent) not in LIST_FOLDERS or path.suffix.lower() not in LIST_SUFFIXES:
            files.append(entry.file)
    full = set(map(PurePosixPath, LIST_FOLDERS)).union(*(PurePosixPath(image.file).parents for image in images))
    empty = [f"{folder}/" for folder in folders - full if folder.parent in full]  # the topmost ones
    return Found(sorted(images, key=lambda image: image.file), sorted(files) + sorted(empty))


def _hidden(path: PurePosixPath) -> bool:
    return any(step.startswith((".", "__MACOSX")) for step in path.parts)


def warn_of_unread(found: Found, source: Path) -> None:
    """Say what nobody will read: photographs in a format that is unknown here must not be missed in silence."""
    if holds := found.holds():
        warnings.warn(f"{source} holds what is not read: {holds}", stacklevel=3)


def by_folder(found: Found, source: Path) -> list[ClassFile]:
    """The images, each with the folder it lies in as its class; a folder named train, val, ... above that is its part.

    Two folders are one class only as its parts: elsewhere one name may mean two things, ``birds/other`` and
    ``fish/other``. What is not read is warned of.
    """
    warn_of_unread(found, source)
    entries: list[ClassFile] = []
    place_of: dict[str, tuple[tuple[str, ...], PurePosixPath]] = {}  # class: its folders less the part, and with it
    for image in found.images:
        folder = PurePosixPath(image.file).parent
        steps = folder.parts
        if not steps:
            raise DataError(f"image {image.file} of {source} lies in no class folder")
        parts = [i for i, step in enumerate(steps[:-1]) if step.lower() in PART_NAMES]
        place = tuple(step for i, step in enumerate(steps) if i not in parts[:1])
        known, first = place_of.setdefault(steps[-1], (place, folder))
        if known != place:
            raise DataError(
                f"the folders {first} and {folder} of {source} would be one class '{steps[-1]}': "
                "give every class a folder with a name of its own"
            )
        part = PART_NAMES[steps[parts[0]].lower()] if parts else None
        entries.append(ClassFile(image.file, steps[-1], image.read, part))
    return entries


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
    from subspan.images.names import describe_classes  # here: single photographs have no class names

    names, wnids = describe_classes(keys, source)
    files = tuple(entry.file for entry in entries)
    return ImageSet(
        images=decode_all(lambda i: entries[i].read(), files, options),
        labels=np.array([class_of[entry.key] for entry in entries], dtype=np.int64),
        class_names=names,
        wnids=wnids,
        files=files,
        parts=tuple(entry.part or "" for entry in entries) if any(entry.part for entry in entries) else None,
        source=source,
    )
