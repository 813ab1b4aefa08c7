"""Which images of a split become features: the contents of a feature file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from subspan.backbones.parts.noise import derive_seed
from subspan.images.imageset import ImageSet, IntArray
from subspan.images.splits.split import Split
from subspan.values import check_options, option


@dataclass(frozen=True)
class Contents:
    """How many images of each kind; None takes what suits the split.

    A split that lists its support images (the fixed one) gives exactly those and all test images. Of others, what the
    paper's protocol needs and some more: a split with sessions gives 10 support images and 25 test images a novel class
    and 1000 base test images; one without (episodes draw from it) 60 support images a class and all test images.
    """

    support_images: int | None = option(None, "support images per novel class")
    copies: int = option(5, "augmented copies of each support image")
    novel_test: int | None = option(None, "test images per novel class; 0: all")
    base_test: int | None = option(None, "base test images in all; 0: all")
    novel: Literal["novel", "development"] = option("novel", "novel or development classes")
    draw_seed: int = option(0, "seed of copies, memory and base test images")
    flip_average: bool = option(False, "average features with those of the mirrored image")
    covariance: bool | None = None  # of the base training features; None: where it takes at most 1 MB in the file

    def __post_init__(self) -> None:
        check_options(self, at_least={1: ("support_images", "copies"), 0: ("novel_test", "base_test")})


@dataclass(frozen=True, eq=False)
class Chosen:
    """Images of one split by purpose, as rows of its image set."""

    base_train: list[IntArray]  # C0 arrays: all training images
    base_test: list[IntArray]  # C0 arrays
    base_memory: IntArray  # (C0,): the place of one image among the training images of its class
    novel_test: list[IntArray]  # C1 arrays
    novel_support: IntArray  # (C1, images)
    copies_seed: int  # of the augmented copies of the support
    described: dict[str, Any]  # what a feature set says of them: labels, names, split and draw


def choose(images: ImageSet, split: Split, contents: Contents) -> Chosen:
    """Which images of a split become features."""
    split.check_made_from(images)
    novel, pools, tests = split.novel_classes, split.novel_support_pool, split.novel_test
    if contents.novel == "development":
        novel, pools, tests = split.development_classes, split.development_support_pool, split.development_test
    if not novel:
        raise ValueError(f"split {split.name!r} has no {contents.novel} classes")
    if split.listed_support:
        usual = split.listed_support, 0, 0
    elif split.sessions and contents.novel == "novel":
        usual = 10, 25, 1000
    else:
        usual = 60, 0, 0
    given = contents.support_images, contents.novel_test, contents.base_test
    support, test, base = (usually if n is None else n for n, usually in zip(given, usual, strict=True))
    short = [images.class_keys[c] for c, pool in zip(novel, pools, strict=True) if len(pool) < support]
    if short:
        raise ValueError(f"{support} support images a class were asked for, class {short[0]!r} has fewer")
    base_train, seed = by_class(images, split, split.base_train), contents.draw_seed
    generator = np.random.default_rng(derive_seed(seed, "memory"))
    base_test = balanced_rows(images, split, base, seed)
    novel_test = [rows[:test] if test else rows for rows in _shuffled(tests, seed)]
    described: dict[str, Any] = {
        "base_test_labels": labels_of(base_test),
        "novel_test_labels": labels_of(novel_test),
        "novel_support_labels": np.repeat(np.arange(len(novel)), support),
        "meta": {
            "split": split.name,
            "split_digest": split.digest(),
            "contents": {"copies": contents.copies, "draw_seed": seed, "novel": contents.novel},
        },
    }
    for kind, values in (("wnids", images.wnids), ("names", images.class_names)):
        if values is not None and (kind == "wnids" or values != images.wnids):
            described[f"base_{kind}"] = tuple(values[c] for c in split.base_classes)
            described[f"novel_{kind}"] = tuple(values[c] for c in novel)
    return Chosen(
        base_train=base_train,
        base_test=base_test,
        base_memory=np.array([generator.integers(len(rows)) for rows in base_train]),
        novel_test=novel_test,
        novel_support=np.stack([pool[:support] for pool in pools]),
        copies_seed=derive_seed(seed, "copies"),
        described=described,
    )


def by_class(images: ImageSet, split: Split, rows: IntArray) -> list[IntArray]:
    """These images of each base class, C0 arrays."""
    return [rows[images.labels[rows] == c] for c in split.base_classes]


def balanced_rows(images: ImageSet, split: Split, count: int, seed: int) -> list[IntArray]:
    """Base test images per class, C0 arrays: ``count`` in all, as even as the classes allow; 0 takes all.

    Of a split without base test images they are its validation images.
    """
    every = by_class(images, split, split.base_queries)
    if count == 0 or count >= sum(len(rows) for rows in every):
        return every
    shuffled = _shuffled(every, seed)
    order = np.random.default_rng(derive_seed(seed, "remainder")).permutation(len(every))
    taken = np.zeros(len(every), dtype=np.int64)
    while taken.sum() < count:  # one more image of every class that has one, in a random order of classes
        for c in order:
            if taken[c] < len(shuffled[c]) and taken.sum() < count:
                taken[c] += 1
    return [np.sort(rows[:n]) for rows, n in zip(shuffled, taken, strict=True)]


def _shuffled(arrays: list[IntArray] | tuple[IntArray, ...], seed: int) -> list[IntArray]:
    return [np.random.default_rng(derive_seed(seed, "test", i)).permutation(rows) for i, rows in enumerate(arrays)]


def labels_of(parts: Sequence[NDArray[Any]]) -> IntArray:
    """The class (n,) of every row, counted from 0."""
    return np.repeat(np.arange(len(parts)), [len(part) for part in parts])
