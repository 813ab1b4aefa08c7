"""tieredImageNet as Ren et al. gave it out and as the rfs repository reads it.

Each part (train, val, test) is ``*_images_png.pkl`` (a list of encoded PNGs, each an array of bytes) or
``*_images.npz`` (``images`` (n, 84, 84, 3)), with ``*_labels.pkl``: ``label_specific`` (n,) and ``label_specific_str``
(the words of each class), or ``labels`` (n,) only. PNGs are preferred where both are there.

Ren et al.'s arrays were read with OpenCV and hold blue first; they are turned to RGB. Arrays with ``labels`` only are
taken as RGB, as the code that reads them does.
"""

from pathlib import Path

import numpy as np

from subspan.files.arrays import read_arrays
from subspan.images.decode import ReadOptions, decode_all
from subspan.images.errors import DataError
from subspan.images.formats.arrays import Block, as_pixels, image_set_of_blocks, labelled
from subspan.images.formats.registry import register_format
from subspan.images.imageset import PARTS, ImageSet, UInt8Array
from subspan.images.safe_pickle import as_labels, as_names, load_dictionary, load_pickle, raw_bytes

TAKES = "tieredImageNet: <train|val|test>_images_png.pkl or _images.npz, each with _labels.pkl"
FORMS = ("_images_png.pkl", "_images.npz")


@register_format("tiered")
def recognise(path: Path) -> bool:
    """Whether the folder holds images of any part."""
    return any(_images_file(path, part) for part in PARTS)


def read(path: Path, options: ReadOptions) -> ImageSet:
    """The images of all parts there are, or of ``options.parts``; all of them together take 16 GB."""
    files = {part: file for part in options.parts or PARTS if (file := _images_file(path, part))}
    if not files:
        raise DataError(f"{path} holds no images of parts {', '.join(options.parts or PARTS)}")
    return image_set_of_blocks([_block(file, part, options) for part, file in files.items()], path, options)


def _images_file(path: Path, part: str) -> Path | None:
    return next((file for form in FORMS if (file := path / f"{part}{form}").is_file()), None)


def _block(file: Path, part: str, options: ReadOptions) -> Block:
    labels_file = file.with_name(f"{part}_labels.pkl")
    if not labels_file.is_file():
        raise DataError(f"{file} needs its labels in {labels_file.name}, which is not there")
    record = load_dictionary(labels_file)
    by_ren = {"label_specific", "label_specific_str"} <= set(record)
    if by_ren:
        labels = as_labels(record["label_specific"], f"label_specific of {labels_file}")
        names = dict(enumerate(as_names(record["label_specific_str"], f"label_specific_str of {labels_file}")))
    elif "labels" in record:
        labels = as_labels(record["labels"], f"labels of {labels_file}")
        names = {label: f"{part} class {label:03d}" for label in set(labels.tolist())}
    else:
        raise DataError(
            f"{labels_file} holds {', '.join(record)}; label_specific and label_specific_str or labels are needed"
        )
    images = _pngs(file, options) if file.suffix == ".pkl" else _array(file, blue_first=by_ren)
    return labelled(images, labels, names, file, part, part)


def _pngs(file: Path, options: ReadOptions) -> UInt8Array:
    encoded = load_pickle(file)
    if not isinstance(encoded, list | tuple | np.ndarray):
        raise DataError(f"{file} must be a list of encoded images, got {type(encoded).__name__}")
    where = [f"number {i} of {file}" for i in range(len(encoded))]
    return decode_all(lambda i: raw_bytes(encoded[i], f"image {where[i]}"), where, options)


def _array(file: Path, blue_first: bool) -> UInt8Array:
    arrays, _ = read_arrays(file, "", DataError)
    if "images" not in arrays:
        raise DataError(f"{file} holds {', '.join(arrays)}; an array named images is needed")
    images = as_pixels(arrays["images"], f"images of {file}")
    return np.ascontiguousarray(images[..., ::-1]) if blue_first else images
