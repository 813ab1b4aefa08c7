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

from subspan.images.errors import DataError
from subspan.images.fields import as_dictionary, as_labels, as_names, text
from subspan.images.formats.arrays import Block, as_pixels, image_set_of_blocks, numbered_files
from subspan.images.formats.registry import register_format
from subspan.images.imageset import ImageSet
from subspan.images.options import PARTS, ReadOptions
from subspan.images.safe_pickle import load_dictionary

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
        keys = _keys_by_index(record["class_dict"], len(images), file)
    elif {"data", "labels"} <= set(record):
        images = as_pixels(record["data"], f"data of {file}")
        keys = _keys_by_label(record, file)
    else:
        raise DataError(
            f"{file} holds {', '.join(record) or 'nothing'}; data and labels or image_data and class_dict are needed"
        )
    if len(keys) != len(images):
        raise DataError(f"{file} holds {len(images)} images and {len(keys)} labels")
    return Block(images, keys, numbered_files(keys, file.stem), _part(file))


def _keys_by_index(classes: Any, n: int, file: Path) -> list[str]:
    keys: list[str | None] = [None] * n
    for name, indices in as_dictionary(classes, f"class_dict of {file}").items():
        for i in as_labels(indices, f"the indices of {text(name)} in class_dict of {file}").tolist():
            if not 0 <= i < n or keys[i] is not None:
                raise DataError(
                    f"class_dict of {file} must give each of {n} images one class, image {i} of {text(name)} not so"
                )
            keys[i] = text(name)
    named = [key for key in keys if key is not None]
    if len(named) < n:
        raise DataError(f"class_dict of {file} must give each of {n} images one class, {n - len(named)} have none")
    return named


def _keys_by_label(record: dict[str, Any], file: Path) -> list[str]:
    labels = as_labels(record["labels"], f"labels of {file}")
    names = _names_by_label(record, int(labels.max(initial=0)), file)
    missing = sorted(set(labels.tolist()) - set(names))
    if missing:
        raise DataError(f"{file} has images with label {missing[0]} and no class name for it")
    return [names[label] for label in labels.tolist()]


def _names_by_label(record: dict[str, Any], largest: int, file: Path) -> dict[int, str]:
    if "catname2label" in record:
        where = f"catname2label of {file}"
        labels = as_dictionary(record["catname2label"], where)
        return _named(list(labels.values()), [text(name) for name in labels], where)
    if "label2catname" in record:
        names, where = record["label2catname"], f"label2catname of {file}"
        if isinstance(names, dict):
            return _named(list(names), as_names(list(names.values()), where), where)
        return dict(enumerate(as_names(names, where)))
    width = len(str(largest))
    return {label: f"class {label:0{width}d}" for label in range(largest + 1)}


def _named(labels: list[Any], names: list[str], where: str) -> dict[int, str]:
    return dict(zip(as_labels(labels, f"the labels in {where}").tolist(), names, strict=True))
