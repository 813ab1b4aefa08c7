"""Encoded images in folders and zips, by class: what is there, what is not read, and the :class:`ImageSet` of them."""

import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from PIL import features

from subspan.images.decode import HEIF, HEIF_SUFFIXES, ReadOptions, decode_all
from subspan.images.imageset import DataError, ImageSet

IMAGE_SUFFIXES = frozenset(
    (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pnm")
    + (HEIF_SUFFIXES if HEIF else ())
    + ((".avif",) if features.check("avif") else ())
)
LIST_SUFFIXES = frozenset((".csv", ".json", ".md", ".txt"))  # of class lists and their like, in these folders
LIST_FOLDERS = (".", "splits", "split")
LARGEST = 256 * 2**20  # bytes of one image in a zip
SHOWN = 5  # folders without images that are named
PART_NAMES = {"train": "train", "val": "val", "valid": "val", "validation": "val", "test": "test"}


@dataclass(frozen=True)
class ImageFile:
    """One encoded image: its name, how to get its bytes, and its class once that is known."""

    file: str  # '/' between folders: '<class>/<name>', '<part>/<class>/<name>', or '<name>' in a flat folder
    read: Callable[[], bytes]
    key: str = ""  # class: a wnid or a name
    part: str | None = None


@dataclass(frozen=True)
class Found:
    """What lies below a folder or in zips."""

    images: list[ImageFile]  # sorted
    unread: list[str]  # other files that are visible, and folders without any image, which end in '/'

    def holds(self) -> str:
        """What of it nobody reads, as the end of a sentence; empty where that is nothing."""
        kinds: dict[str, list[str]] = {}
        folders = [name for name in self.unread if name.endswith("/")]
        for name in self.unread[: len(self.unread) - len(folders)]:
            kinds.setdefault(PurePosixPath(name).suffix.lower(), []).append(name)
        commonest = sorted(kinds.items(), key=lambda pair: -len(pair[1]))
        said = [f"{len(names)} {kind or 'without a suffix'} (as {names[0]})" for kind, names in commonest]
        if folders:
            more = f" and {len(folders) - SHOWN} more" if len(folders) > SHOWN else ""
            said.append(f"no image in {', '.join(folders[:SHOWN])}{more}")
        if not HEIF and kinds.keys() & set(HEIF_SUFFIXES):
            said.append("pip install pillow-heif reads HEIC")
        return "; ".join(said)


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


def stream_images(path: Path) -> Generator[Path, None, Found]:
    """All visible images below a folder one after the other; then what else is there, with one image of each folder."""
    folders: set[str] = set()
    entries: list[ImageFile] = []
    for name in _walk(path):
        if is_image(name):
            yield path / name
            if (folder := name.rpartition("/")[0]) in folders:
                continue
            folders.add(folder)
        entries.append(ImageFile(name, partial(read_file, path / name)))
    return _find(entries)


def has_images(path: Path) -> bool:
    """Whether any image lies below a folder."""
    return path.is_dir() and any(map(is_image, _walk(path)))


def find_zips(path: Path) -> list[Path]:
    """A zip, or the zips of a folder."""
    return [path] if path.suffix.lower() == ".zip" and path.is_file() else sorted(path.glob("*.zip"))


@contextmanager
def open_images(path: Path) -> Iterator[Found]:
    """The images below a folder, or where it has none those of its zips, or those of one zip; and what else is there.

    They are readable while the context lasts.
    """
    found = _find(ImageFile(name, partial(read_file, path / name)) for name in _walk(path))
    with ExitStack() as stack:
        entries: list[ImageFile] = []
        for place in [] if found.images else find_zips(path):
            try:
                archive = stack.enter_context(zipfile.ZipFile(place))
            except (OSError, zipfile.BadZipFile) as error:
                raise DataError(f"{place} is not a whole zip file: {error}") from error
            entries += [ImageFile(info.filename, partial(_unzip, archive, info, place)) for info in archive.infolist()]
        yield _find(entries) if entries else found


def _unzip(archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: Path) -> bytes:
    if info.file_size > LARGEST:
        raise DataError(
            f"image {info.filename} of {place} would unpack to {info.file_size:,} bytes; at most {LARGEST:,} are read"
        )
    try:
        return archive.read(info)
    except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"image {info.filename} of {place} cannot be read: {error}") from error


def _walk(path: Path) -> Iterator[str]:
    """The names of all files below a folder, and of all folders with a '/' at their end."""
    for folder, folders, names in os.walk(path, followlinks=True):  # class folders are often links
        relative = Path(folder).relative_to(path)
        folders.sort()
        yield from ((relative / name).as_posix() for name in sorted(names))
        yield from ((relative / name).as_posix() + "/" for name in folders)


def _find(entries: Iterable[ImageFile]) -> Found:
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


def check_found(found: Found, source: Path, expected: str = "") -> None:
    """Refuse a place without images, and say what nobody will read: no photograph must be missed in silence."""
    holds = found.holds()
    if not found.images:
        raise DataError(f"{source} holds no images" + f" but {holds}" * bool(holds) + expected)
    if holds:
        warnings.warn(f"{source} holds what is not read: {holds}", stacklevel=3)


def by_folder(found: Found, source: Path, expected: str = "", by_path: bool = False) -> list[ImageFile]:
    """The images, each with the folder it lies in as its class; a folder named train, val, ... above that is its part.

    Two folders are one class only as its parts: elsewhere one name may mean two things, ``birds/other`` and
    ``fish/other``. By path these are the names.
    """
    check_found(found, source, expected)
    entries: list[ImageFile] = []
    place_of: dict[str, tuple[tuple[str, ...], PurePosixPath]] = {}  # class: its folders less the part, and with it
    for image in found.images:
        folder = PurePosixPath(image.file).parent
        steps = folder.parts
        if not steps:
            raise DataError(f"image {image.file} of {source} lies in no class folder")
        parts = [i for i, step in enumerate(steps[:-1]) if step.lower() in PART_NAMES]
        place = tuple(step for i, step in enumerate(steps) if i not in parts[:1])
        key = "/".join(place) if by_path else steps[-1]
        known, first = place_of.setdefault(key, (place, folder))
        if known != place:
            raise DataError(
                f"the folders {first} and {folder} of {source} would be one class '{steps[-1]}': "
                "give every class a folder with a name of its own, or name classes by their path (--names path)"
            )
        part = PART_NAMES[steps[parts[0]].lower()] if parts else None
        entries.append(replace(image, key=key, part=part))
    return entries


def image_set_of(entries: Sequence[ImageFile], source: Path, options: ReadOptions) -> ImageSet:
    """Decode all entries, in order of class key and file name."""
    if not entries:
        raise DataError(f"{source} holds no images")
    entries = sorted(entries, key=lambda entry: (entry.key, entry.file))
    files = [entry.file for entry in entries]
    images = decode_all(lambda i: entries[i].read(), files, options)
    from subspan.images.lists import image_set  # here: single photographs have no class names

    return image_set(images, [entry.key for entry in entries], files, [entry.part for entry in entries], source)
