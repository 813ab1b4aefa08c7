"""miniImageNet as Ravi and Larochelle list it: train.csv, val.csv and test.csv beside images in any arrangement."""

from dataclasses import replace
from pathlib import Path, PurePosixPath

from subspan.images.classfiles import ImageFile, image_set_of, open_images
from subspan.images.decode import ReadOptions
from subspan.images.imageset import PARTS, DataError, ImageSet
from subspan.images.lists import COLUMNS, ENCODING, read_csv
from subspan.images.read import register_format

TAKES = "train.csv, val.csv and test.csv (filename,label) beside a flat folder, class folders or zips of images"


@register_format("ravi")
def recognise(path: Path) -> bool:
    """Whether the folder holds the CSVs, itself or in ``splits/`` or ``split/``, with the columns that are needed.

    Where all images lie in one folder, other CSVs count too, and reading says what is wrong with them: the classes can
    come from nowhere else.
    """
    folder, missing = _csv_folder(path)
    if len(missing) == len(PARTS):
        return False
    if not missing:
        with (folder / "train.csv").open(encoding=ENCODING, errors="replace") as file:
            if {column.strip() for column in file.readline().split(",")} >= COLUMNS:
                return True
    with open_images(path) as found:
        return len({PurePosixPath(image.file).parent.name for image in found.images}) == 1


def read(path: Path, options: ReadOptions) -> ImageSet:
    """The listed images, named ``<label>/<filename>`` wherever they lie; images that no CSV lists are left out."""
    folder, missing = _csv_folder(path)
    if missing:
        raise DataError(
            f"{folder} lacks {' and '.join(missing)}: images in one folder need the lists of all three parts"
        )
    with open_images(path) as everything:
        by_end: dict[str, list[ImageFile]] = {}  # images/cat/1.jpg by itself, by cat/1.jpg and by 1.jpg
        for image in everything.images:
            steps = PurePosixPath(image.file).parts
            for first in range(len(steps)):
                by_end.setdefault("/".join(steps[first:]), []).append(image)
        entries = []
        for part in PARTS:
            for name, label in read_csv(folder / f"{part}.csv"):
                image = _find(PurePosixPath(name), label, by_end, f"{folder / part}.csv lists {name}", path)
                entries.append(replace(image, file=f"{label}/{PurePosixPath(name).name}", key=label, part=part))
        return image_set_of(entries, path, options)


def _find(name: PurePosixPath, label: str, by_end: dict[str, list[ImageFile]], row: str, path: Path) -> ImageFile:
    """The image of a row: of the listed path, else in a folder of its label, else of its bare name."""
    several: list[ImageFile] = []
    for end in (str(name), f"{label}/{name.name}", name.name):
        found = by_end.get(end, [])
        found = [image for image in found if image.file == end] or found
        if len(found) == 1:
            return found[0]
        several = several or found
    if several:
        raise DataError(f"{row} of {label}, which may be {several[0].file} or {several[1].file}")
    raise DataError(f"{row}, which is not among the images of {path}")


def _csv_folder(path: Path) -> tuple[Path, list[str]]:
    """The folder with the CSVs, or with most of them, and those that it lacks."""
    found = []
    for folder in (path, path / "splits", path / "split"):
        found.append((folder, [f"{part}.csv" for part in PARTS if not (folder / f"{part}.csv").is_file()]))
    return min(found, key=lambda pair: len(pair[1]))
