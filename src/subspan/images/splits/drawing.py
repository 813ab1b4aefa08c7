"""Seeded draws that depend on names only: the same classes and file names give the same draw in any order or format."""

import hashlib
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from subspan.images.imageset import DataError, ImageSet, IntArray

_LAST_PARTS = {"val": 1, "test": 2}


def generator(seed: int, purpose: str) -> np.random.Generator:
    """A generator of its own for each purpose, e.g. ``'classes'`` or ``'images of n01532829'``."""
    if seed < 0:
        raise DataError(f"a split's seed must be 0 or more, got {seed}")
    words = np.frombuffer(hashlib.sha256(purpose.encode()).digest(), dtype="<u4")
    return np.random.default_rng([seed, *words.tolist()])


def shuffled_classes(images: ImageSet, seed: int, classes: Iterable[int] | None = None) -> list[int]:
    """Class indices (all, or ``classes``) in a seeded order of their sorted keys."""
    chosen = range(len(images.class_keys)) if classes is None else classes
    ordered = sorted(chosen, key=lambda c: images.class_keys[c])
    return [ordered[i] for i in generator(seed, "classes").permutation(len(ordered))]


def sorted_by_file(images: ImageSet, indices: Iterable[int]) -> IntArray:
    """Indices in the order of their file names, (m,)."""
    return np.array(sorted(indices, key=lambda i: images.files[i]), dtype=np.int64)


def shuffled_images(images: ImageSet, class_index: int, seed: int) -> IntArray:
    """All images of one class, (m,), in a seeded order of their sorted file names.

    Images that the data itself keeps for validation or test come after all others, in this order: a cut from the
    front takes them for training last.
    """
    key = images.class_keys[class_index]
    ordered = sorted_by_file(images, images.indices_of(class_index))
    shuffled = ordered[generator(seed, f"images of {key}").permutation(len(ordered))]
    if images.parts is None:
        return shuffled
    ranks = [_LAST_PARTS.get(images.parts[i], 0) for i in shuffled]
    return shuffled[np.argsort(ranks, kind="stable")]


Counts = tuple[int | None, int | None, int | None]  # of images of a class; None takes what is left


def cut(indices: IntArray, counts: Counts, what: str) -> list[IntArray]:
    """Three consecutive pieces of ``indices`` (m,) with these counts, of which ``None`` takes what is left."""
    numbers = [count for count in counts if count is not None]
    if min(numbers) < 0:
        raise DataError(f"counts of images must be 0 or more, got {counts}")
    left = len(indices) - sum(numbers)
    if left < (None in counts):
        least = " + ".join("at least 1" if count is None else str(count) for count in counts if count != 0)
        raise DataError(f"{what} has {len(indices)} images, the split needs {least}")
    ends = np.cumsum([left if count is None else count for count in counts])
    return np.split(indices, ends)[:-1]


def divided(
    images: ImageSet, classes: Sequence[int], seed: int, counts: Counts | Callable[[int], Counts]
) -> list[list[IntArray]]:
    """Each class's images shuffled by seed and cut by ``counts``, of all classes or of each: one array per class."""
    pieces = []
    for c in classes:
        own = counts(c) if callable(counts) else counts
        pieces.append(cut(shuffled_images(images, c, seed), own, f"class {images.class_keys[c]!r}"))
    return [[piece[i] for piece in pieces] for i in range(3)]


def in_sessions(classes: Sequence[int], ways: int) -> tuple[tuple[int, ...], ...]:
    """Classes in sessions of this many ways; the last may have fewer."""
    return tuple(tuple(classes[i : i + ways]) for i in range(0, len(classes), ways))


def joined(pieces: Sequence[IntArray]) -> IntArray:
    """All indices of the pieces, ascending, (m,)."""
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *pieces]))
