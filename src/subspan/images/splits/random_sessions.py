"""Random multi-session splits, the paper's: shuffle the classes by seed, some are base, the rest come in sessions."""

from dataclasses import dataclass, replace

from subspan.images.errors import DataError
from subspan.images.imageset import ImageSet
from subspan.images.splits.drawing import cut, divided, generator, in_sessions, shuffled_classes, sorted_by_file
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
