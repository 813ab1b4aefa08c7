"""CUB-200-2011 as it is given out: images.txt, classes.txt and their like beside the class folders in images/."""

from functools import partial
from pathlib import Path

from subspan.images.classfiles import ImageFile, image_set_of, read_file
from subspan.images.decode import ReadOptions
from subspan.images.imageset import DataError, ImageSet
from subspan.images.read import register_format

TAKES = "CUB-200-2011: images.txt, classes.txt, image_class_labels.txt and images/ (the folder CUB_200_2011)"
INSIDE = "CUB_200_2011"  # of the archive
LISTS = "images.txt", "classes.txt", "image_class_labels.txt"
PARTS = "train_test_split.txt"  # 1: for training


@register_format("cub")
def recognise(path: Path) -> bool:
    """Whether the folder, or the one of that name in it, holds the lists."""
    return _folder(path) is not None


def read(path: Path, options: ReadOptions) -> ImageSet:
    """The listed images, named ``<class>/<file>`` as in the list; where it is there, the list of parts divides them."""
    folder = _folder(path) or path
    places, names, classes = (_column(folder / name) for name in LISTS)
    training = _column(folder / PARTS) if (folder / PARTS).is_file() else {}
    entries = []
    for number, place in places.items():
        if (key := names.get(classes.get(number, ""))) is None:
            raise DataError(f"image {number} ({place}) of {folder} has no class in {LISTS[2]} and {LISTS[1]}")
        part = {"1": "train", "0": "test"}.get(training.get(number, ""))
        entries.append(ImageFile(place, partial(read_file, folder / "images" / place), key, part))
    return image_set_of(entries, path, options)


def _folder(path: Path) -> Path | None:
    return next((one for one in (path, path / INSIDE) if all((one / name).is_file() for name in LISTS)), None)


def _column(path: Path) -> dict[str, str]:
    """What a list says of each number: lines of a number and a word."""
    pairs = [line.split(maxsplit=1) for line in path.read_text("utf-8").splitlines() if line.strip()]
    if bad := [pair for pair in pairs if len(pair) != 2]:
        raise DataError(f"every line of {path} must be a number and a word, got {' '.join(bad[0])!r}")
    return {number: word.strip() for number, word in pairs}
