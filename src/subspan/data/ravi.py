"""miniImageNet as Ravi and Larochelle list it: train.csv, val.csv and test.csv beside images in any arrangement."""

from __future__ import annotations

import csv
from contextlib import nullcontext
from pathlib import Path, PurePosixPath

from subspan.data import folders, zips
from subspan.data.classfiles import ClassFile, ImageFile, image_set_of
from subspan.data.errors import DataError
from subspan.data.imageset import ImageSet
from subspan.data.options import ReadOptions

TAKES = "train.csv, val.csv and test.csv (filename,label) beside a flat folder, class folders or zips of images"
PARTS = ("train", "val", "test")


def recognise(path: Path) -> bool:
    """Whether the folder holds the CSVs, itself or in ``splits/`` or ``split/``, with the columns that are needed."""
    folder = _csv_folder(path)
    if folder is None:
        return False
    with (folder / "train.csv").open(encoding="utf-8", errors="replace") as file:
        return {"filename", "label"} <= {column.strip() for column in file.readline().split(",")}


def read(path: Path, options: ReadOptions) -> ImageSet:
    """The listed images, named ``<label>/<filename>`` wherever they lie; images that no CSV lists are left out."""
    folder = _csv_folder(path)
    assert folder is not None, "read follows recognise"
    wanted = options.parts or PARTS
    listed = {part: read_csv(folder / f"{part}.csv") for part in PARTS if part in wanted}
    with nullcontext(folders.find_images(path)) if folders.recognise(path) else zips.open_images(path) as images:
        by_name: dict[str, ImageFile] = {PurePosixPath(image.file).name: image for image in images}
        entries = []
        for part, rows in listed.items():
            for name, label in rows:
                image = by_name.get(PurePosixPath(name).name)
                if image is None:
                    raise DataError(
                        f"{folder / part}.csv lists {name}, which is not among the {len(by_name)} images of {path}"
                    )
                entries.append(ClassFile(f"{label}/{PurePosixPath(name).name}", label, image.read, part))
        return image_set_of(entries, path, options)


def read_csv(path: Path) -> list[tuple[str, str]]:
    """File name and label of every row of a CSV with the header ``filename,label``."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [(row["filename"], row["label"]) for row in csv.DictReader(file)]
    except (OSError, KeyError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as a table of filename and label: {error!r}") from error


def _csv_folder(path: Path) -> Path | None:
    candidates = (path / folder for folder in ("", "splits", "split"))
    return next((folder for folder in candidates if all((folder / f"{p}.csv").is_file() for p in PARTS)), None)
