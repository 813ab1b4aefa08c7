"""miniImageNet as Ravi and Larochelle list it: train.csv, val.csv and test.csv beside images in any arrangement."""

import csv
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePosixPath

from subspan.images.classfiles import ClassFile, Found, ImageFile, image_set_of
from subspan.images.errors import DataError
from subspan.images.formats import folders, zips
from subspan.images.formats.registry import register_format
from subspan.images.imageset import ImageSet
from subspan.images.options import PARTS, ReadOptions

TAKES = "train.csv, val.csv and test.csv (filename,label) beside a flat folder, class folders or zips of images"
COLUMNS = {"filename", "label"}
ENCODING = "utf-8-sig"  # spreadsheets begin a CSV with a byte order mark


@register_format("ravi")
def recognise(path: Path) -> bool:
    """Whether the folder holds the CSVs, itself or in ``splits/`` or ``split/``, with the columns that are needed.

    Where all images lie in one folder, other CSVs count too, and reading says what is wrong with them: the classes can
    come from nowhere else.
    """
    folder = _csv_folder(path)
    if folder is None:
        return False
    if not _missing(folder):
        with (folder / "train.csv").open(encoding=ENCODING, errors="replace") as file:
            if {column.strip() for column in file.readline().split(",")} >= COLUMNS:
                return True
    with _open_images(path) as found:
        return len({PurePosixPath(image.file).parent.name for image in found.images}) == 1


def read(path: Path, options: ReadOptions) -> ImageSet:
    """The listed images, named ``<label>/<filename>`` wherever they lie; images that no CSV lists are left out."""
    folder = _csv_folder(path)
    assert folder is not None, "read follows recognise"
    if missing := _missing(folder):
        raise DataError(
            f"{folder} lacks {' and '.join(missing)}: images in one folder need the lists of all three parts"
        )
    wanted = options.parts or PARTS
    listed = {part: read_csv(folder / f"{part}.csv") for part in PARTS if part in wanted}
    with _open_images(path) as everything:
        images = everything.images
        by_end = _by_end(images)
        entries = []
        for part, rows in listed.items():
            for name, label in rows:
                found = _find(PurePosixPath(name), label, by_end)
                if not found:
                    raise DataError(
                        f"{folder / part}.csv lists {name}, which is not among the {len(images)} images of {path}"
                    )
                if len(found) > 1:
                    raise DataError(
                        f"{folder / part}.csv lists {name} of {label}, which may be {found[0].file} or {found[1].file}"
                    )
                entries.append(ClassFile(f"{label}/{PurePosixPath(name).name}", label, found[0].read, part))
        return image_set_of(entries, path, options)


def read_csv(path: Path) -> list[tuple[str, str]]:
    """File name and label of every row of a CSV with the header ``filename,label``."""
    rows = []
    try:
        with path.open(newline="", encoding=ENCODING) as file:
            table = csv.DictReader(file)
            columns = table.fieldnames or ()
            if not set(columns) >= COLUMNS:
                raise DataError(f"{path} must have the columns filename and label, got {', '.join(columns) or 'none'}")
            for row in table:
                if not row["filename"] or not row["label"]:
                    raise DataError(f"line {table.line_num} of {path} must give a filename and a label")
                rows.append((row["filename"], row["label"]))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as a table of filename and label: {error}") from error
    return rows


def _open_images(path: Path) -> AbstractContextManager[Found]:
    """Other files are none of ours: the lists say what belongs to the data."""
    return nullcontext(folders.find_images(path)) if folders.recognise(path) else zips.open_images(path)


def _by_end(images: Sequence[ImageFile]) -> dict[str, list[ImageFile]]:
    """Images by every end of their path: ``images/cat/1.jpg`` by itself, ``cat/1.jpg`` and ``1.jpg``."""
    by_end: dict[str, list[ImageFile]] = {}
    for image in images:
        steps = PurePosixPath(image.file).parts
        for first in range(len(steps)):
            by_end.setdefault("/".join(steps[first:]), []).append(image)
    return by_end


def _find(name: PurePosixPath, label: str, by_end: dict[str, list[ImageFile]]) -> list[ImageFile]:
    """The image of a row: of the listed path, else in a folder of its label, else of its bare name; all if several."""
    several: list[ImageFile] = []
    for end in (str(name), f"{label}/{name.name}", name.name):
        found = by_end.get(end, [])
        found = [image for image in found if image.file == end] or found
        if len(found) == 1:
            return found
        several = several or found
    return several


def _csv_folder(path: Path) -> Path | None:
    """The folder with the CSVs, or with some of them where none has all."""
    folder = min((path / name for name in ("", "splits", "split")), key=lambda folder: len(_missing(folder)))
    return folder if len(_missing(folder)) < len(PARTS) else None


def _missing(folder: Path) -> list[str]:
    return [f"{part}.csv" for part in PARTS if not (folder / f"{part}.csv").is_file()]
