"""Which images of a split become features, and in what form: the contents of a feature file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.images.imageset import ImageSet
from subspan.images.splits.split import Split
from subspan.train.extract import Extractor
from subspan.train.seeds import derive_seed
from subspan.values import check_options, option

IntArray = NDArray[np.int64]

# Where the user says nothing and the split lists no support images: what the paper's protocol needs, and some more.
_SUPPORT_IMAGES, _NOVEL_TEST, _BASE_TEST = 10, 25, 1000
_EPISODE_SUPPORT_IMAGES = 60
_COVARIANCE_BYTES = 1 << 20  # of one triangle in float16: up to 1023 features


@dataclass(frozen=True)
class Contents:
    """How many images of each kind; None takes what suits the split.

    A split that lists its support images (the fixed one) gives exactly those and all test images. A split with sessions
    gives 10 support images and 25 test images a novel class and 1000 base test images; one without sessions (episodes
    draw from it) 60 support images a class and all test images.
    """

    support_images: int | None = option(None, "support images per novel class")
    copies: int = option(5, "augmented copies of each support image")
    novel_test: int | None = option(None, "test images per novel class; 0: all")
    base_test: int | None = option(None, "base test images in all; 0: all")
    novel: Literal["novel", "development"] = option("novel", "novel or development classes")
    draw_seed: int = option(0, "seed of copies, memory and base test images")
    covariance: bool | None = None  # of the base training features; None: where it takes at most 1 MB in the file

    def __post_init__(self) -> None:
        check_options(self, at_least={1: ("support_images", "copies"), 0: ("novel_test", "base_test")})


@dataclass(frozen=True, eq=False)
class Collected:
    """Features of one split by purpose; per-class lists where counts may differ."""

    base_mean: FloatArray  # (C0, d): of all training images
    base_count: IntArray  # (C0,): training images
    base_test: list[FloatArray]  # C0 arrays (t, d)
    base_memory: FloatArray  # (C0, d): one training image a class
    novel_test: list[FloatArray]  # C1 arrays (t, d)
    novel_support: FloatArray  # (C1, images, copies, d)
    base_classes: tuple[int, ...]
    novel_classes: tuple[int, ...]
    base_covariance: FloatArray | None = None  # (d, d); of unit features where the head is a cosine


@dataclass(frozen=True, eq=False)
class Chosen:
    """Images of one split by purpose, as rows of its image set."""

    base_train: list[IntArray]  # C0 arrays: all training images
    base_test: list[IntArray]  # C0 arrays
    base_memory: IntArray  # (C0,): the place of one image among the training images of its class
    novel_test: list[IntArray]  # C1 arrays
    novel_support: IntArray  # (C1, images)
    copies_seed: int  # of the augmented copies of the support
    base_classes: tuple[int, ...]
    novel_classes: tuple[int, ...]


def choose(images: ImageSet, split: Split, contents: Contents) -> Chosen:
    """Which images of a split become features."""
    split.check_made_from(images)
    development = contents.novel == "development"
    novel = split.development_classes if development else split.novel_classes
    pools = split.development_support_pool if development else split.novel_support_pool
    tests = split.development_test if development else split.novel_test
    if not novel:
        raise ValueError(f"split {split.name!r} has no {contents.novel} classes")
    support_images, novel_count, base_count = _counts(contents, split)
    short = [images.class_keys[c] for c, pool in zip(novel, pools, strict=True) if len(pool) < support_images]
    if short:
        raise ValueError(f"{support_images} support images a class were asked for, class {short[0]!r} has fewer")
    base_train = _by_class(images, split, split.base_train)
    generator = np.random.default_rng(derive_seed(contents.draw_seed, "memory"))
    return Chosen(
        base_train=base_train,
        base_test=balanced_rows(images, split, base_count, contents.draw_seed),
        base_memory=np.array([generator.integers(len(rows)) for rows in base_train]),
        novel_test=[test if novel_count == 0 else test[:novel_count] for test in _shuffled(tests, contents.draw_seed)],
        novel_support=np.stack([pool[:support_images] for pool in pools]),
        copies_seed=derive_seed(contents.draw_seed, "copies"),
        base_classes=split.base_classes,
        novel_classes=novel,
    )


def collect(extractor: Extractor, images: ImageSet, split: Split, contents: Contents) -> Collected:
    """Compute the features of a split's images."""
    chosen = choose(images, split, contents)
    train = _per_class(extractor.plain, chosen.base_train)
    by_class = [part.astype(np.float64) for part in train]
    width = train[0].shape[1]
    small = width * (width + 1) <= _COVARIANCE_BYTES
    wanted = small if contents.covariance is None else contents.covariance
    support = chosen.novel_support
    copies = extractor.copies(support.reshape(-1), contents.copies, chosen.copies_seed)
    return Collected(
        base_mean=np.stack([part.mean(0) for part in by_class]).astype(np.float32),
        base_count=np.array([len(rows) for rows in chosen.base_train]),
        base_test=_per_class(extractor.plain, chosen.base_test),
        base_memory=np.stack([part[place] for part, place in zip(train, chosen.base_memory, strict=True)]),
        novel_test=_per_class(extractor.plain, chosen.novel_test),
        novel_support=copies.reshape(*support.shape, contents.copies, -1),
        base_classes=chosen.base_classes,
        novel_classes=chosen.novel_classes,
        base_covariance=within_class_covariance(by_class, unit=extractor.cosine) if wanted else None,
    )


def collect_base(
    extractor: Extractor, images: ImageSet, split: Split, chosen: IntArray, *, turned: bool
) -> tuple[list[FloatArray], list[FloatArray] | None]:
    """Features of chosen images of the base classes by class: C0 arrays (n, d).

    If asked for, also of the images turned by 90, 180 and 270 degrees, C0 arrays (n, 3, d).
    """
    split.check_made_from(images)
    rows = _by_class(images, split, chosen)
    plain = _per_class(extractor.plain, rows)
    if not turned:
        return plain, None
    return plain, _per_class(lambda every: np.stack([extractor.turned(every, q) for q in (1, 2, 3)], axis=1), rows)


def _by_class(images: ImageSet, split: Split, rows: IntArray) -> list[IntArray]:
    """These images of each base class, C0 arrays."""
    return [rows[images.labels[rows] == c] for c in split.base_classes]


def within_class_covariance(by_class: list[NDArray[np.float64]], *, unit: bool = False) -> FloatArray:
    """Covariance (d, d) of features (n, d) around the means of their classes, pooled over the classes.

    Deviations count equally whatever the class and are divided by their number less the number of classes. With
    ``unit`` features are scaled to length one first, which is all that a cosine head sees of them.
    """
    scatter = np.zeros((by_class[0].shape[1],) * 2)
    for part in by_class:
        if unit:
            part = part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)
        deviations = part - part.mean(0)
        scatter += deviations.T @ deviations
    return (scatter / max(1, sum(map(len, by_class)) - len(by_class))).astype(np.float32)


def _counts(contents: Contents, split: Split) -> tuple[int, int, int]:
    """Support images a class, test images a novel class (0: all), base test images (0: all)."""
    if split.listed_support:
        support, novel, base = split.listed_support, 0, 0
    elif split.sessions and contents.novel == "novel":
        support, novel, base = _SUPPORT_IMAGES, _NOVEL_TEST, _BASE_TEST
    else:
        support, novel, base = _EPISODE_SUPPORT_IMAGES, 0, 0
    return (
        support if contents.support_images is None else contents.support_images,
        novel if contents.novel_test is None else contents.novel_test,
        base if contents.base_test is None else contents.base_test,
    )


def balanced_rows(images: ImageSet, split: Split, count: int, seed: int) -> list[IntArray]:
    """Base test images per class, C0 arrays: ``count`` in all, as even as the classes allow; 0 takes all.

    Of a split without base test images they are its validation images.
    """
    every = _by_class(images, split, split.base_queries)
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


def _per_class(compute: Callable[[IntArray], FloatArray], rows: list[IntArray]) -> list[FloatArray]:
    return np.split(compute(np.concatenate(rows)), np.cumsum([len(part) for part in rows])[:-1])


def labels_of(parts: Sequence[NDArray[Any]]) -> IntArray:
    """The class (n,) of every row, counted from 0."""
    return np.repeat(np.arange(len(parts)), [len(part) for part in parts])
