"""A split of any images of a user's own: fractions instead of counts, with minimum sizes checked."""

from dataclasses import dataclass

from subspan.images.errors import DataError
from subspan.images.imageset import ImageSet, IntArray
from subspan.images.splits.drawing import cut, joined, shuffled_classes, shuffled_images
from subspan.images.splits.split import Split, SplitRecipe


@dataclass(frozen=True)
class FolderSessions(SplitRecipe):
    """Base classes and sessions drawn by seed as fractions of what is there; the last session may have fewer ways.

    Every fraction rounds to the nearest count, at least 1 image for validation and test where its fraction is above 0.
    Where a class has images in folders named val or test, these take the place of the fraction: they never train, and
    those of novel classes never support. A class with too few images is refused by name rather than dropped.
    """

    kind = "folder"

    seed: int = 0
    base_fraction: float = 0.6  # of the classes
    ways: int = 5
    validation_fraction: float = 0.1  # of the images of each base class
    test_fraction: float = 0.2  # of the images of each class, base or novel
    least_base_classes: int = 2
    least_train: int = 5  # images per base class that must remain for training
    least_pool: int = 5  # images per novel class that must remain for support

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.seed}"

    def make(self, images: ImageSet) -> Split:
        self._check()
        base_count = round(self.base_fraction * len(images.class_keys))
        if base_count < self.least_base_classes:
            raise DataError(
                f"a folder split needs at least {self.least_base_classes} base classes, {self.base_fraction:g} of "
                f"{len(images.class_keys)} classes is {base_count}"
            )
        order = shuffled_classes(images, self.seed)
        base, novel = tuple(order[:base_count]), tuple(order[base_count:])
        base_pieces = [self._cut(images, c, self.validation_fraction, self.least_train) for c in base]
        novel_pieces = [self._cut(images, c, 0.0, self.least_pool) for c in novel]
        return self.split(
            images,
            base_classes=base,
            sessions=tuple(novel[i : i + self.ways] for i in range(0, len(novel), self.ways)),
            novel_classes=novel,
            base_train=joined([train for train, _, _ in base_pieces]),
            base_validation=joined([validation for _, validation, _ in base_pieces]),
            base_test=joined([test for _, _, test in base_pieces]),
            novel_support_pool=tuple(pool for pool, _, _ in novel_pieces),
            novel_test=tuple(test for _, _, test in novel_pieces),
        )

    def _check(self) -> None:
        if not 0 < self.base_fraction <= 1:
            raise DataError(f"the fraction of base classes must lie in (0, 1], got {self.base_fraction}")
        if self.ways < 1:
            raise DataError(f"a session needs at least 1 way, got {self.ways}")
        if min(self.validation_fraction, self.test_fraction) < 0 or self.validation_fraction + self.test_fraction >= 1:
            raise DataError(
                "fractions of validation and test images must be 0 or more and sum to less than 1, got "
                f"{self.validation_fraction} and {self.test_fraction}"
            )

    def _cut(self, images: ImageSet, class_index: int, validation_fraction: float, least: int) -> list[IntArray]:
        shuffled = shuffled_images(images, class_index, self.seed)
        parts = [] if images.parts is None else [images.parts[i] for i in shuffled]
        validation = parts.count("val") or _count(validation_fraction, len(shuffled))
        test = parts.count("test") or _count(self.test_fraction, len(shuffled))
        what = f"class {images.class_keys[class_index]!r}"
        if len(shuffled) < least + validation + test:
            raise DataError(
                f"{what} has {len(shuffled)} images, a folder split needs at least {least} beside {validation} for "
                f"validation and {test} for test"
            )
        return cut(shuffled, (len(shuffled) - validation - test, validation, test), what)


def _count(fraction: float, images: int) -> int:
    return max(1, round(fraction * images)) if fraction > 0 else 0
