"""CIFAR-100 as its python files: ``train``, ``test`` and ``meta`` in one folder (cifar-100-python)."""

from pathlib import Path
from typing import Any

import numpy as np

from subspan.images.errors import DataError
from subspan.images.fields import as_array, as_labels, as_names
from subspan.images.formats.arrays import Block, image_set_of_blocks, numbered_files
from subspan.images.formats.registry import register_format
from subspan.images.imageset import ImageSet
from subspan.images.options import ReadOptions
from subspan.images.safe_pickle import load_dictionary

TAKES = "CIFAR-100's python files (train, test and meta)"
PARTS = ("train", "test")
CHANNELS = 3


@register_format("cifar")
def recognise(path: Path) -> bool:
    """Whether the folder holds the three files."""
    return all((path / name).is_file() for name in (*PARTS, "meta"))


def read(path: Path, options: ReadOptions) -> ImageSet:
    """Images of both parts with their fine labels, named ``<class>/<part>-<file name>``.

    They are 32 pixels wide and are scaled to ``options.size`` like any other; ``size=None`` keeps them as they are.
    """
    meta = path / "meta"
    names = as_names(_field(load_dictionary(meta), "fine_label_names", meta), f"fine_label_names of {meta}")
    wanted = [part for part in PARTS if options.parts is None or part in options.parts]
    if not wanted:
        raise DataError(f"{path} is divided into {' and '.join(PARTS)}, got parts {options.parts}")
    return image_set_of_blocks([_block(path / part, part, names) for part in wanted], path, options)


def _block(file: Path, part: str, names: list[str]) -> Block:
    record = load_dictionary(file)
    rows = as_array(_field(record, "data", file), f"data of {file}")
    labels = as_labels(_field(record, "fine_labels", file), f"fine_labels of {file}")
    side = int(np.sqrt(rows.shape[-1] // CHANNELS)) if rows.ndim == 2 else 0
    if rows.dtype != np.uint8 or rows.ndim != 2 or side * side * CHANNELS != rows.shape[1]:
        raise DataError(f"data of {file} must be uint8 (n, 3 x side x side), got {rows.dtype} {rows.shape}")
    if labels.shape != (len(rows),) or not (labels.size == 0 or 0 <= labels.min() <= labels.max() < len(names)):
        raise DataError(f"fine_labels of {file} must be {len(rows)} numbers below {len(names)}, got {labels.shape}")
    keys = [names[label] for label in labels.tolist()]
    files = numbered_files(keys, part)
    if "filenames" in record:
        filenames = as_names(record["filenames"], f"filenames of {file}")
        if len(filenames) != len(keys):
            raise DataError(f"{file} holds {len(keys)} images and {len(filenames)} filenames")
        given = [f"{key}/{part}-{name}" for key, name in zip(keys, filenames, strict=True)]
        files = given if len(set(given)) == len(given) else files
    images = np.ascontiguousarray(rows.reshape(-1, CHANNELS, side, side).transpose(0, 2, 3, 1))
    return Block(images, keys, files, part)


def _field(record: dict[str, Any], name: str, file: Path) -> Any:
    if name not in record:
        raise DataError(f"{file} holds {', '.join(record)}; {name} is needed")
    return record[name]
