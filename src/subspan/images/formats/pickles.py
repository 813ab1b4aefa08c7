"""miniImageNet as the pickles this field passes around, and other data sets in the same two layouts.

- ``all.pickle`` and ``miniImageNet_category_split_*.pickle``: ``data`` (n, 84, 84, 3), ``labels`` (n,) and
  ``catname2label`` (class to label) or ``label2catname`` (classes by label, or label to class);
- ``mini-imagenet-cache-*.pkl``: ``image_data`` (n, 84, 84, 3) and ``class_dict`` (class to indices of its images).

Images have no names there and get ``<class>/<file's stem>-00012``. ``all.pickle`` is read alone where it is present.
The extra images of the training classes (``train_phase_val`` and ``train_phase_test``) come only when these parts are
asked for.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from subspan.images.decode import ReadOptions
from subspan.images.errors import DataError
from subspan.images.formats.arrays import Block, as_pixels, image_set_of_blocks, labelled
from subspan.images.formats.registry import register_format
from subspan.images.imageset import PARTS, ImageSet, IntArray
from subspan.images.safe_pickle import as_dictionary, as_labels, as_names, load_dictionary, text

TAKES = "all.pickle, miniImageNet_category_split_*.pickle, mini-imagenet-cache-*.pkl, or one such file"
WHOLE = "all.pickle"
SUFFIXES = (".pickle", ".pkl")
NAME = re.compile(
    r".*(?:split|cache|imagenet|cifar).*?[-_](train(?:_phase_(?:train|val|test))?|val|test)", re.IGNORECASE
)


@register_format("pickles")
def recognise(path: Path) -> bool:
    """Whether the path is a pickle or a folder with all.pickle or with pickles named after data set and part."""
    return bool(_files(path))


def read(path: Path, options: ReadOptions) -> ImageSet:
    """The images of the pickle, or of all pickles of the folder."""
    files = _files(path)
    if len(files) > 1 or options.parts is not None:
        wanted = options.parts or PARTS
        files = [file for file in files if _part(file) in wanted]
    if not files:
        raise DataError(f"{path} holds no pickle of parts {', '.join(options.parts or PARTS)}")
    return image_set_of_blocks([_block(file) for file in files], path, options)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if path.suffix in SUFFIXES else []
    if (path / WHOLE).is_file():
        return [path / WHOLE]
    return sorted(file for suffix in SUFFIXES for file in path.glob(f"*{suffix}") if _part(file) is not None)


def _part(file: Path) -> str | None:
    found = NAME.fullmatch(file.stem)
    return None if found is None else found[1].removesuffix("_phase_train")


def _block(file: Path) -> Block:
    record = load_dictionary(file)
    if {"image_data", "class_dict"} <= set(record):
        images = as_pixels(record["image_data"], f"image_data of {file}")
        labels, names = _by_index(record["class_dict"], len(images), file)
    elif {"data", "labels"} <= set(record):
        images = as_pixels(record["data"], f"data of {file}")
        labels = as_labels(record["labels"], f"labels of {file}")
        names = _names_by_label(record, labels, file)
    else:
        raise DataError(
            f"{file} holds {', '.join(record) or 'nothing'}; data and labels or image_data and class_dict are needed"
        )
    return labelled(images, labels, names, file, _part(file), file.stem)


def _by_index(classes: Any, n: int, file: Path) -> tuple[IntArray, dict[int, str]]:
    """Labels (n,) and their names from the indices of the images of each class."""
    labels, names = np.full(n, -1), {}
    for label, (key, indices) in enumerate(as_dictionary(classes, f"class_dict of {file}").items()):
        names[label] = name = text(key)
        for i in as_labels(indices, f"the indices of {name} in class_dict of {file}").tolist():
            if not 0 <= i < n or labels[i] >= 0:
                raise DataError(
                    f"class_dict of {file} must give each of {n} images one class, image {i} of {name} not so"
                )
            labels[i] = label
    if len(without := np.flatnonzero(labels < 0)):
        raise DataError(f"class_dict of {file} must give each of {n} images one class, {len(without)} have none")
    return labels, names


def _names_by_label(record: dict[str, Any], labels: IntArray, file: Path) -> dict[int, str]:
    if "catname2label" in record:
        where = f"catname2label of {file}"
        known = as_dictionary(record["catname2label"], where)
        numbers, names = list(known.values()), list(known)
    elif "label2catname" in record:
        where, known = f"label2catname of {file}", record["label2catname"]
        if not isinstance(known, dict):
            return dict(enumerate(as_names(known, where)))
        numbers, names = list(known), list(known.values())
    else:
        width = len(str(labels.max(initial=0)))
        return {label: f"class {label:0{width}d}" for label in labels.tolist()}
    return dict(zip(as_labels(numbers, f"the labels in {where}").tolist(), as_names(names, where), strict=True))
