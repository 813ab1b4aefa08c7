"""From arrays of decoded images to an :class:`ImageSet`: what the pickles, npz and CIFAR files have in common."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from subspan.images.decode import ReadOptions, resize_all
from subspan.images.errors import DataError
from subspan.images.imageset import ImageSet, IntArray, UInt8Array
from subspan.images.lists import image_set
from subspan.images.safe_pickle import as_array


@dataclass(frozen=True)
class Block:
    """The images of one file."""

    images: UInt8Array  # (n, height, width, 3) RGB
    keys: Sequence[str]  # (n,): class of each image, a wnid or a name
    files: Sequence[str]  # (n,)
    part: str | None


def as_pixels(values: Any, where: str) -> UInt8Array:
    """Images (n, height, width, 3) as uint8; other numbers are taken only if nothing is lost by that."""
    array = as_array(values, where)
    if array.ndim != 4 or array.shape[-1] != 3 or array.dtype.kind not in "uif":
        raise DataError(f"{where} must hold numbers (n, height, width, 3), got {array.dtype} {array.shape}")
    if array.dtype != np.uint8 and not np.array_equal(array.astype(np.uint8), array):
        raise DataError(
            f"{where} must hold whole numbers in 0..255, got {array.min():g}..{array.max():g} as {array.dtype}"
        )
    return array.astype(np.uint8, copy=False)


def labelled(
    images: UInt8Array, labels: IntArray, names: Mapping[int, str], file: Path, part: str | None, stem: str
) -> Block:
    """The images of a file with a label (n,) each, named ``<class>/<stem>-00012``, counted within the class."""
    if len(images) != len(labels):
        raise DataError(f"{file} holds {len(images)} images and {len(labels)} labels")
    missing = set(labels.tolist()) - names.keys()
    if missing:
        raise DataError(f"{file} has images with label {min(missing)} and no class name for it")
    keys = [names[label] for label in labels.tolist()]
    seen: Counter[str] = Counter()
    files = []
    for key in keys:
        files.append(f"{key}/{stem}-{seen[key]:05d}")
        seen[key] += 1
    return Block(images, keys, files, part)


def image_set_of_blocks(blocks: Sequence[Block], source: Path, options: ReadOptions) -> ImageSet:
    """All blocks in one set, in their order, classes by sorted key; the images in the size wanted."""
    images = [resize_all(block.images, block.files, options) for block in blocks]
    keys, files = ([name for block in blocks for name in getattr(block, what)] for what in ("keys", "files"))
    parts = [block.part for block in blocks for _ in block.keys]
    return image_set(images[0] if len(images) == 1 else np.concatenate(images), keys, files, parts, source)
