"""CIFAR-100 as its python files: ``train``, ``test`` and ``meta`` in one folder (cifar-100-python)."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from subspan.images.decode import ReadOptions
from subspan.images.errors import DataError
from subspan.images.formats.arrays import Block, image_set_of_blocks, labelled
from subspan.images.formats.registry import register_format
from subspan.images.imageset import ImageSet
from subspan.images.safe_pickle import as_array, as_labels, as_names, load_dictionary

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
    images = np.ascontiguousarray(rows.reshape(-1, CHANNELS, side, side).transpose(0, 2, 3, 1))
    block = labelled(images, labels, dict(enumerate(names)), file, part, part)
    if "filenames" not in record:
        return block
    filenames = as_names(record["filenames"], f"filenames of {file}")
    if len(filenames) != len(block.keys):
        raise DataError(f"{file} holds {len(block.keys)} images and {len(filenames)} filenames")
    given = [f"{key}/{part}-{name}" for key, name in zip(block.keys, filenames, strict=True)]
    return replace(block, files=given) if len(set(given)) == len(given) else block


def _field(record: dict[str, Any], name: str, file: Path) -> Any:
    if name not in record:
        raise DataError(f"{file} holds {', '.join(record)}; {name} is needed")
    return record[name]
