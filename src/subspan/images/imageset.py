"""The one form in which every reader hands over images, and from which every split is made."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

UInt8Array = NDArray[np.uint8]
IntArray = NDArray[np.int64]
PARTS = ("train", "val", "test")  # into which a data set of few-shot learning is usually divided


class DataError(ValueError):
    """Data that cannot be taken: the message names the file or value and the rule it breaks, in one sentence."""


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet:
    """Images of one size with their classes and stable names.

    A class has a *key*: its wnid where the set has wnids, else its name. Splits go by keys and file names, never by
    the order in which a format happens to hold images, so that one data set gives one split in every format.
    """

    images: UInt8Array  # (n, height, width, 3) RGB
    labels: IntArray  # (n,): index into class_names
    class_names: tuple[str, ...]  # (C,)
    wnids: tuple[str, ...] | None  # (C,) or None
    files: tuple[str, ...]  # (n,): unique, '/' between folders, e.g. 'n01532829/n0153282900000005.jpg'
    parts: tuple[str, ...] | None = None  # (n,): 'train', 'val' or 'test' where the data itself is so divided
    source: Path | None = None  # where it was read from; lists of splits are looked for there

    def __post_init__(self) -> None:
        images, labels, n = self.images, self.labels, len(self.files)
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3:
            raise DataError(f"images must be uint8 (n, height, width, 3), got {images.dtype} {images.shape}")
        if labels.dtype != np.int64 or labels.ndim != 1:
            raise DataError(f"labels must be int64 (n,), got {labels.dtype} {labels.shape}")
        if not len(images) == len(labels) == n:
            raise DataError(f"one label and one name per image: {len(images)} images, {len(labels)} labels, {n} names")
        if n and not 0 <= labels.min() <= labels.max() < len(self.class_names):
            raise DataError(
                f"labels must lie in 0..{len(self.class_names) - 1}, got {labels.min()}..{labels.max()} "
                f"with {len(self.class_names)} class names"
            )
        if self.wnids is not None and len(self.wnids) != len(self.class_names):
            raise DataError(f"one wnid per class: {len(self.wnids)} wnids, {len(self.class_names)} class names")
        if self.parts is not None and len(self.parts) != n:
            raise DataError(f"one part per image: {len(self.parts)} parts, {n} images")
        for what, values in (("class key", self.class_keys), ("file name", self.files)):
            if len(set(values)) < len(values):
                value, times = Counter(values).most_common(1)[0]
                raise DataError(f"every {what} may occur once, {value!r} occurs {times} times")
        if "" in self.files:
            raise DataError(f"every image needs a file name, image {self.files.index('')} has an empty one")

    def __len__(self) -> int:
        return len(self.files)

    def __repr__(self) -> str:
        height, width = self.size
        return f"ImageSet({len(self)} images {width}x{height}, {len(self.class_names)} classes, from {self.source})"

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of every image."""
        return self.images.shape[1], self.images.shape[2]

    @property
    def class_keys(self) -> tuple[str, ...]:
        """What identifies each class, (C,): its wnid, or its name where there are no wnids."""
        return self.class_names if self.wnids is None else self.wnids

    def class_index(self, key: str) -> int:
        """The class with this wnid (or name, where there are no wnids)."""
        try:
            return self.class_keys.index(key)
        except ValueError:
            raise DataError(
                f"class {key!r} is not in these images, which hold {len(self.class_keys)} classes such as "
                f"{', '.join(map(repr, self.class_keys[:3]))}"
            ) from None

    def indices_of(self, class_index: int) -> IntArray:
        """Ascending indices of one class's images, (m,)."""
        return np.flatnonzero(self.labels == class_index)
