"""From arrays of decoded images to an :class:`ImageSet`: what the pickles, npz and CIFAR files have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from subspan.images.decode import resize_all
from subspan.images.errors import DataError
from subspan.images.fields import as_array
from subspan.images.imageset import ImageSet, UInt8Array
from subspan.images.names import describe_classes
from subspan.images.options import ReadOptions


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
    if array.dtype == np.uint8:
        return array
    pixels = array.astype(np.uint8)
    if not np.array_equal(pixels, array):
        raise DataError(
            f"{where} must hold whole numbers in 0..255, got {array.min():g}..{array.max():g} as {array.dtype}"
        )
    return pixels


def numbered_files(keys: Sequence[str], stem: str) -> list[str]:
    """Stable names for images that have none: ``<class>/<stem>-00012``, counted within the class."""
    seen: dict[str, int] = {}
    files = []
    for key in keys:
        seen[key] = seen.get(key, -1) + 1
        files.append(f"{key}/{stem}-{seen[key]:05d}")
    return files


def image_set_of_blocks(blocks: Sequence[Block], source: Path, options: ReadOptions) -> ImageSet:
    """All blocks in one set, in their order, classes by sorted key; the images in the size wanted."""
    keys = sorted({key for block in blocks for key in block.keys})
    class_of = {key: i for i, key in enumerate(keys)}
    names, wnids = describe_classes(keys, source)
    images = [resize_all(block.images, block.files, options) for block in blocks]
    parts = tuple(block.part or "" for block in blocks for _ in block.keys)
    return ImageSet(
        images=images[0] if len(images) == 1 else np.concatenate(images),
        labels=np.array([class_of[key] for block in blocks for key in block.keys], dtype=np.int64),
        class_names=names,
        wnids=wnids,
        files=tuple(file for block in blocks for file in block.files),
        parts=parts if any(parts) else None,
        source=source,
    )
