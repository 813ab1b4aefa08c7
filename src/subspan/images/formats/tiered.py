"""tieredImageNet as Ren et al. gave it out and as the rfs repository reads it.

Each part (train, val, test) is ``*_images_png.pkl`` (a list of encoded PNGs, each an array of bytes) or
``*_images.npz`` (``images`` (n, 84, 84, 3)), with ``*_labels.pkl``: ``label_specific`` (n,) and ``label_specific_str``
(the words of each class), or ``labels`` (n,) only. PNGs are preferred where both are there.

Ren et al.'s arrays were read with OpenCV and hold blue first; they are turned to RGB. Arrays with ``labels`` only are
taken as RGB, as the code that reads them does.
"""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from subspan.images.decode import decode_all
from subspan.images.errors import DataError
from subspan.images.fields import as_labels, as_names, raw_bytes
from subspan.images.formats.arrays import Block, as_pixels, image_set_of_blocks, numbered_files
from subspan.images.formats.registry import register_format
from subspan.images.imageset import ImageSet, UInt8Array
from subspan.images.options import PARTS, ReadOptions
from subspan.images.safe_pickle import load_dictionary, load_pickle

TAKES = "tieredImageNet: <train|val|test>_images_png.pkl or _images.npz, each with _labels.pkl"
FORMS = ("_images_png.pkl", "_images.npz")


@register_format("tiered")
def recognise(path: Path) -> bool:
    """Whether the folder holds images of any part."""
    return any(_images_file(path, part) for part in PARTS)


def read(path: Path, options: ReadOptions) -> ImageSet:
    """The images of all parts there are, or of ``options.parts``; all of them together take 16 GB."""
    found = [part for part in options.parts or PARTS if _images_file(path, part)]
    if not found:
        raise DataError(f"{path} holds no images of parts {', '.join(options.parts or PARTS)}")
    return image_set_of_blocks([_block(path, part, options) for part in found], path, options)


def _images_file(path: Path, part: str) -> Path | None:
    return next((file for form in FORMS if (file := path / f"{part}{form}").is_file()), None)


def _block(path: Path, part: str, options: ReadOptions) -> Block:
    images_file, labels_file = _images_file(path, part), path / f"{part}_labels.pkl"
    assert images_file is not None
    if not labels_file.is_file():
        raise DataError(f"{images_file} needs its labels in {labels_file.name}, which is not there")
    keys, blue_first = _keys(labels_file, part)
    files = numbered_files(keys, part)
    images = _pngs(images_file, files, options) if images_file.suffix == ".pkl" else _array(images_file, blue_first)
    if len(images) != len(keys):
        raise DataError(f"{images_file} holds {len(images)} images and {labels_file.name} {len(keys)} labels")
    return Block(images, keys, files, part)


def _keys(file: Path, part: str) -> tuple[list[str], bool]:
    """Class of each image, and whether the labels are Ren et al.'s (whose arrays have blue first)."""
    record = load_dictionary(file)
    if {"label_specific", "label_specific_str"} <= set(record):
        names = as_names(record["label_specific_str"], f"label_specific_str of {file}")
        labels = as_labels(record["label_specific"], f"label_specific of {file}")
    elif "labels" in record:
        labels = as_labels(record["labels"], f"labels of {file}")
        names = [f"{part} class {label:03d}" for label in range(int(labels.max(initial=-1)) + 1)]
    else:
        raise DataError(f"{file} holds {', '.join(record)}; label_specific and label_specific_str or labels are needed")
    if len(labels) and not 0 <= labels.min() <= labels.max() < len(names):
        raise DataError(f"labels of {file} must lie in 0..{len(names) - 1}, got {labels.min()}..{labels.max()}")
    return [names[label] for label in labels.tolist()], "label_specific" in record


def _pngs(file: Path, names: Sequence[str], options: ReadOptions) -> UInt8Array:
    encoded = load_pickle(file)
    if not isinstance(encoded, list | tuple | np.ndarray) or len(encoded) != len(names):
        raise DataError(f"{file} must be a list of {len(names)} encoded images, one per label")
    where = [f"{name} (number {i} of {file})" for i, name in enumerate(names)]
    return decode_all(lambda i: raw_bytes(encoded[i], f"image {where[i]}"), where, options)


def _array(file: Path, blue_first: bool) -> UInt8Array:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            if "images" not in arrays:
                raise DataError(f"{file} holds {', '.join(arrays)}; an array named images is needed")
            images = as_pixels(arrays["images"], f"images of {file}")
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} is not a whole npz file of plain arrays: {error}") from error
    return np.ascontiguousarray(images[..., ::-1]) if blue_first else images
