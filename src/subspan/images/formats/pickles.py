"""Data sets of decoded images in pickles, in the layouts that this field passes around.

- miniImageNet's ``all.pickle`` and ``miniImageNet_category_split_*.pickle``: ``data`` (n, 84, 84, 3), ``labels`` (n,)
  and ``catname2label`` (class to label) or ``label2catname`` (classes by label, or label to class);
- its ``mini-imagenet-cache-*.pkl``: ``image_data`` (n, 84, 84, 3) and ``class_dict`` (class to indices of its images);
- CIFAR-100's python files, ``train``, ``test`` and ``meta`` in one folder, or in ``cifar-100-python`` inside it:
  ``data`` (n, 3 x 32 x 32) in planes, ``fine_labels`` (n,) and ``filenames``; ``meta`` has ``fine_label_names``;
- tieredImageNet as Ren et al. gave it out and as the rfs repository reads it, per part: ``*_images_png.pkl``, a list of
  encoded PNGs, each an array of bytes, or else ``*_images.npz`` with ``images`` (n, 84, 84, 3); and ``*_labels.pkl``
  with ``label_specific`` (n,) and ``label_specific_str``, the words of each class, or ``labels`` (n,) only. Arrays with
  the former were read with OpenCV and hold blue first; they are turned to RGB.

Images without names get ``<class>/<file's stem>-00012``. ``all.pickle`` is read alone where it is present. The extra
images of the training classes (``train_phase_val`` and ``train_phase_test``) are files to be named themselves.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from subspan.files.arrays import read_arrays
from subspan.images.decode import ReadOptions, decode_all, resize_all
from subspan.images.imageset import PARTS, DataError, ImageSet, IntArray, UInt8Array
from subspan.images.lists import image_set
from subspan.images.read import register_format
from subspan.images.safe_pickle import as_array, as_dictionary, as_labels, as_names, load_pickle, raw_bytes

TAKES = (
    "all.pickle, miniImageNet_category_split_*.pickle, mini-imagenet-cache-*.pkl, or one such file; CIFAR-100's python "
    "files (train, test, meta); tieredImageNet: <train|val|test>_images_png.pkl or _images.npz, each with _labels.pkl"
)
WHOLE = "all.pickle"
SUFFIXES = (".pickle", ".pkl")
CIFAR, INSIDE = ("train", "test", "meta"), "cifar-100-python"  # the files, and their folder in the archive
TIERED = ("_images_png.pkl", "_images.npz")  # the first is preferred
NAME = re.compile(
    r".*(?:split|cache|imagenet|cifar).*?[-_](train(?:_phase_(?:train|val|test))?|val|test)", re.IGNORECASE
)


@register_format("pickles")
def recognise(path: Path) -> bool:
    """Whether the path is a pickle or a folder with files of one of these layouts."""
    return bool(_files(path))


def read(path: Path, options: ReadOptions) -> ImageSet:
    """The images of the file, or of all files of the folder, in their order; all of tieredImageNet takes 16 GB."""
    files = _files(path)
    images, keys, names, parts = [], [], [], []
    for file, part in files.items():
        pixels, classes, own = _tiered(file, part, options) if file.name.endswith(TIERED) else _pickle(file, part)
        images.append(resize_all(pixels, own, options))
        keys += classes
        names += own
        parts += [part] * len(own)
    return image_set(images[0] if len(images) == 1 else np.concatenate(images), keys, names, parts, path)


def _files(path: Path) -> dict[Path, str | None]:
    """The files with images, and their parts."""
    if path.is_file():
        return {path: _part(path)} if path.suffix in SUFFIXES else {}
    for folder in (path, path / INSIDE):
        if all((folder / name).is_file() for name in CIFAR):
            return {folder / part: part for part in CIFAR[:2]}
    tiered = {part: [file for form in TIERED if (file := path / f"{part}{form}").is_file()] for part in PARTS}
    if any(tiered.values()):
        return {files[0]: part for part, files in tiered.items() if files}
    if (path / WHOLE).is_file():
        return {path / WHOLE: None}
    named = {file: _part(file) for suffix in SUFFIXES for file in path.glob(f"*{suffix}")}
    return {file: named[file] for file in sorted(named) if named[file] in PARTS}


def _part(file: Path) -> str | None:
    found = NAME.fullmatch(file.stem)
    return None if found is None else found[1].removesuffix("_phase_train")


def _pickle(file: Path, part: str | None) -> tuple[UInt8Array, list[str], list[str]]:
    """Images (n, height, width, 3) of a file, their classes and their names."""
    record = as_dictionary(load_pickle(file), str(file))
    if {"image_data", "class_dict"} <= set(record):
        images = _pixels(record["image_data"], f"image_data of {file}")
        labels, names = _by_index(record["class_dict"], len(images), file)
    elif "data" in record and (found := {"labels", "fine_labels"}.intersection(record)):
        images = _pixels(record["data"], f"data of {file}")
        labels = as_labels(record[name := found.pop()], f"{name} of {file}")
        names = _names_by_label(record, labels, file)
    else:
        raise DataError(
            f"{file} holds {', '.join(record) or 'nothing'}; data and labels or image_data and class_dict are needed"
        )
    keys, files = _named(images, labels, names, file, file.stem)
    if "filenames" in record:
        given = as_names(record["filenames"], f"filenames of {file}")
        if len(given) != len(keys):
            raise DataError(f"{file} holds {len(keys)} images and {len(given)} filenames")
        given = [f"{key}/{part}-{name}" for key, name in zip(keys, given, strict=True)]
        files = given if len(set(given)) == len(given) else files
    return images, keys, files


def _tiered(file: Path, part: str | None, options: ReadOptions) -> tuple[UInt8Array, list[str], list[str]]:
    """The same of one part of tieredImageNet."""
    labels_file = file.with_name(f"{part}_labels.pkl")
    if not labels_file.is_file():
        raise DataError(f"{file} needs its labels in {labels_file.name}, which is not there")
    record = as_dictionary(load_pickle(labels_file), str(labels_file))
    by_ren = {"label_specific", "label_specific_str"} <= set(record)
    if by_ren:
        labels = as_labels(record["label_specific"], f"label_specific of {labels_file}")
        names = dict(enumerate(as_names(record["label_specific_str"], f"label_specific_str of {labels_file}")))
    elif "labels" in record:
        labels = as_labels(record["labels"], f"labels of {labels_file}")
        names = {label: f"{part} class {label:03d}" for label in labels.tolist()}
    else:
        raise DataError(
            f"{labels_file} holds {', '.join(record)}; label_specific and label_specific_str or labels are needed"
        )
    if file.suffix == ".npz":
        arrays, _ = read_arrays(file, "", DataError)
        if "images" not in arrays:
            raise DataError(f"{file} holds {', '.join(arrays)}; an array named images is needed")
        images = _pixels(arrays["images"], f"images of {file}")
        images = np.ascontiguousarray(images[..., ::-1]) if by_ren else images
    else:
        encoded = load_pickle(file)
        if not isinstance(encoded, list | tuple | np.ndarray):
            raise DataError(f"{file} must be a list of encoded images, got {type(encoded).__name__}")
        where = [f"number {i} of {file}" for i in range(len(encoded))]
        images = decode_all(lambda i: raw_bytes(encoded[i], f"image {where[i]}"), where, options)
    return images, *_named(images, labels, names, file, str(part))


def _pixels(values: Any, where: str) -> UInt8Array:
    """Images (n, height, width, 3) as uint8, or in planes (n, 3 x side x side); other numbers if nothing is lost."""
    array = as_array(values, where)
    if array.ndim == 2 and (side := math.isqrt(array.shape[1] // 3)) ** 2 * 3 == array.shape[1]:
        array = np.ascontiguousarray(array.reshape(-1, 3, side, side).transpose(0, 2, 3, 1))
    if array.ndim != 4 or array.shape[-1] != 3 or array.dtype.kind not in "uif":
        raise DataError(f"{where} must hold numbers (n, height, width, 3), got {array.dtype} {array.shape}")
    if array.dtype != np.uint8 and not np.array_equal(array.astype(np.uint8), array):
        raise DataError(
            f"{where} must hold whole numbers in 0..255, got {array.min():g}..{array.max():g} as {array.dtype}"
        )
    return array.astype(np.uint8, copy=False)


def _named(
    images: UInt8Array, labels: IntArray, names: Mapping[int, str], file: Path, stem: str
) -> tuple[list[str], list[str]]:
    """The class of each image by its label (n,), and ``<class>/<stem>-00012``, counted within the class."""
    if len(images) != len(labels):
        raise DataError(f"{file} holds {len(images)} images and {len(labels)} labels")
    if missing := set(labels.tolist()) - names.keys():
        raise DataError(f"{file} has images with label {min(missing)} and no class name for it")
    keys = [names[label] for label in labels.tolist()]
    places: defaultdict[str, count[int]] = defaultdict(count)
    return keys, [f"{key}/{stem}-{next(places[key]):05d}" for key in keys]


def _by_index(classes: Any, n: int, file: Path) -> tuple[IntArray, dict[int, str]]:
    """Labels (n,) and their names from the indices of the images of each class."""
    labels, names = np.full(n, -1), {}
    for label, (name, indices) in enumerate(as_dictionary(classes, f"class_dict of {file}").items()):
        names[label] = name
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
    if "fine_labels" in record:
        meta = file.with_name("meta")
        known = as_dictionary(load_pickle(meta), str(meta)).get("fine_label_names")
        return dict(enumerate(as_names(known, f"fine_label_names of {meta}")))
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
