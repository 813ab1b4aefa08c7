"""Splits drawn by seed: the paper's random sessions, and those of any images of a user's own."""

from dataclasses import dataclass, replace

from subspan.images.imageset import DataError, ImageSet
from subspan.images.splits.drawing import Counts, cut, divided, generator, in_sessions, shuffled_classes, sorted_by_file
from subspan.images.splits.split import Split, SplitRecipe


@dataclass(frozen=True)
class RandomSessions(SplitRecipe):
    """Base classes and sessions drawn by seed; seed 0 is the development split, which no table reports.

    Base images are divided per class (balanced), or with ``pooled`` as the released code does: all base images shuffled
    together and cut in the same proportion, so that counts per class vary. Novel classes are always divided per class.
    Choices are made on :meth:`for_choices`, which meets none of the test images.

    >>> RandomSessions(seed=1).name
    'random:1'
    """

    kind = "random"

    pooled: bool = False
    base_classes: int = 60
    sessions: int = 8
    ways: int = 5
    train: int = 500  # images per base class
    validation: int = 50
    test: int = 50
    novel_pool: int = 500  # images per novel class from which support is drawn
    novel_test: int = 100

    @property
    def name(self) -> str:
        return super().name + ":pooled" * self.pooled + ":validation" * (self.test == 0)

    def for_choices(self) -> "RandomSessions":
        """The same split without its test images: what is chosen on it has met none of them.

        Base classes are measured on their validation images, novel ones on images from the end of their support pools.
        """
        return replace(self, test=0, novel_pool=self.novel_pool - self.novel_test)

    def make(self, images: ImageSet) -> Split:
        count = self.base_classes + self.sessions * self.ways
        if self.base_classes < 1 or self.sessions < 0 or self.ways < 1:
            raise DataError(
                f"a random split needs at least 1 base class, 0 sessions and 1 way, got {self.base_classes}, "
                f"{self.sessions} and {self.ways}"
            )
        if len(images.class_keys) < count:
            raise DataError(
                f"{self.base_classes} base classes and {self.sessions} sessions of {self.ways} need {count} classes, "
                f"these images have {len(images.class_keys)}"
            )
        order = shuffled_classes(images, self.seed)
        base, novel = order[: self.base_classes], order[self.base_classes : count]
        counts = (self.train, self.validation, self.test)
        if self.pooled:
            by_key = sorted(base, key=lambda c: images.class_keys[c])
            pool = [int(i) for c in by_key for i in sorted_by_file(images, images.indices_of(c))]
            shuffled = generator(self.seed, "pooled base images").permutation(pool)
            train, validation, test = (n * len(base) for n in counts)
            base_images = [[piece] for piece in cut(shuffled, (train, validation, test), "the pool of base images")]
        else:
            base_images = divided(images, base, self.seed, counts)
        novel_images = divided(images, novel, self.seed, (self.novel_pool, 0, self.novel_test))
        return self.split(images, base, base_images, novel, novel_images, sessions=in_sessions(novel, self.ways))


@dataclass(frozen=True)
class FolderSessions(SplitRecipe):
    """Base classes and sessions drawn by seed as fractions of what is there; the last session may have fewer ways.

    Every fraction rounds to the nearest count, at least 1 image for validation and test where its fraction is above 0.
    Where a class has images in folders named val or test, these take the place of the fraction: they never train, and
    those of novel classes never support. A class with too few images is refused by name rather than dropped.
    """

    kind = "folder"

    base_fraction: float = 0.6  # of the classes
    ways: int = 5
    validation_fraction: float = 0.1  # of the images of each base class
    test_fraction: float = 0.2  # of the images of each class, base or novel
    least_base_classes: int = 2
    least_train: int = 5  # images per base class that must remain for training
    least_pool: int = 5  # images per novel class that must remain for support

    def make(self, images: ImageSet) -> Split:
        if not 0 < self.base_fraction <= 1:
            raise DataError(f"the fraction of base classes must lie in (0, 1], got {self.base_fraction}")
        if self.ways < 1:
            raise DataError(f"a session needs at least 1 way, got {self.ways}")
        if min(self.validation_fraction, self.test_fraction) < 0 or self.validation_fraction + self.test_fraction >= 1:
            raise DataError(
                "fractions of validation and test images must be 0 or more and sum to less than 1, got "
                f"{self.validation_fraction} and {self.test_fraction}"
            )
        base_count = round(self.base_fraction * len(images.class_keys))
        if base_count < self.least_base_classes:
            raise DataError(
                f"a folder split needs at least {self.least_base_classes} base classes, {self.base_fraction:g} of "
                f"{len(images.class_keys)} classes is {base_count}"
            )
        order = shuffled_classes(images, self.seed)
        base, novel = order[:base_count], order[base_count:]

        def counts(class_index: int) -> Counts:
            return self._counts(images, class_index, class_index in base)

        base_images, novel_images = (divided(images, classes, self.seed, counts) for classes in (base, novel))
        return self.split(images, base, base_images, novel, novel_images, sessions=in_sessions(novel, self.ways))

    def _counts(self, images: ImageSet, class_index: int, base: bool) -> Counts:
        """How many images of a class are for training or support, for validation, and for test."""
        indices = images.indices_of(class_index)
        parts = [] if images.parts is None else [images.parts[i] for i in indices]
        validation = parts.count("val") or _share(self.validation_fraction if base else 0.0, len(indices))
        test = parts.count("test") or _share(self.test_fraction, len(indices))
        least = self.least_train if base else self.least_pool
        if len(indices) < least + validation + test:
            raise DataError(
                f"class {images.class_keys[class_index]!r} has {len(indices)} images, a folder split needs at least "
                f"{least} beside {validation} for validation and {test} for test"
            )
        return len(indices) - validation - test, validation, test


def _share(fraction: float, images: int) -> int:
    return max(1, round(fraction * images)) if fraction > 0 else 0
