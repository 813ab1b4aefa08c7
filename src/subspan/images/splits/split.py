"""What every split gives: which classes are base and novel, and which images serve which purpose."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from subspan.images.imageset import DataError, ImageSet, IntArray
from subspan.images.splits.drawing import joined

OF_BASE = ("base_train", "base_validation", "base_test", "extra_train")  # fields with one array of images
PER_CLASS = ("novel_support_pool", "novel_test", "development_support_pool", "development_test")  # one array per class


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Classes and image indices of one split of one :class:`ImageSet`.

    Indices of images refer to the set the split was made from and are ascending in the ``base_*`` arrays. Support pools
    and test images of a novel class are in drawing order, which depends on seed and names only: a protocol that wants
    fewer takes the first. The first ``listed_support`` of each pool are the ones the published protocol lists (0: it
    lists none). Test images serve for reporting only: choose on ``base_validation`` or on the development classes. A
    split may be without base test images, and features of it are then measured on its validation images.

    Two splits are compared by :meth:`digest`, not by ``==``.
    """

    name: str  # as on the command line: 'random:1'
    options: Mapping[str, Any]  # every option it was made with
    base_classes: tuple[int, ...]  # (C0,)
    sessions: tuple[tuple[int, ...], ...]  # novel classes of each incremental session; () where episodes draw them
    novel_classes: tuple[int, ...]  # (C1,): the sessions' classes in order, or all that episodes draw from
    base_train: IntArray
    base_validation: IntArray
    base_test: IntArray
    novel_support_pool: tuple[IntArray, ...]  # one array per novel class
    novel_test: tuple[IntArray, ...]  # one array per novel class
    class_keys: tuple[str, ...]  # (C,) of the image set
    files: tuple[str, ...]  # (n,) of the image set
    listed_support: int = 0
    extra_classes: tuple[int, ...] = ()  # train the backbone beside the base classes; their rows are then dropped
    extra_train: IntArray | None = None  # images of the extra classes
    development_classes: tuple[int, ...] = ()  # novel classes to choose hyper-parameters on, never reported
    development_support_pool: tuple[IntArray, ...] = ()  # one array per development class
    development_test: tuple[IntArray, ...] = ()  # one array per development class

    def __post_init__(self) -> None:
        in_sessions = tuple(c for session in self.sessions for c in session)
        if self.sessions and in_sessions != self.novel_classes:
            raise DataError(f"novel classes must be the sessions' in order, got {self.novel_classes} and {in_sessions}")
        if any(not session for session in self.sessions):
            raise DataError(f"every session needs a class, session {self.sessions.index(()) + 1} has none")
        roles = (*self.base_classes, *self.extra_classes, *self.novel_classes, *self.development_classes)
        if len(set(roles)) != len(roles):
            raise DataError("a class may have one role only (base, extra, novel or development) in a split")
        for what in PER_CLASS:
            classes, arrays = getattr(self, f"{what.partition('_')[0]}_classes"), getattr(self, what)
            if len(classes) != len(arrays):
                raise DataError(f"{what} must have one array per class: {len(classes)} classes, {len(arrays)} arrays")
        arrays = [getattr(self, what) for what in OF_BASE] + [one for what in PER_CLASS for one in getattr(self, what)]
        everything = np.concatenate([array for array in arrays if array is not None])
        if len(np.unique(everything)) != len(everything):
            raise DataError("an image may serve one purpose only in a split")

    def __repr__(self) -> str:
        return (
            f"Split({self.name!r}, {len(self.base_classes)} base and {len(self.novel_classes)} novel classes in "
            f"{len(self.sessions)} sessions, digest {self.digest()[:12]})"
        )

    @property
    def training_classes(self) -> tuple[int, ...]:
        """Classes the backbone is trained on: the base classes first, then the extra ones."""
        return self.base_classes + self.extra_classes

    @property
    def queried(self) -> Literal["test", "validation"]:
        """Which images of base classes features are measured on: test images, in a split without any the others."""
        return "test" if len(self.base_test) else "validation"

    @property
    def base_queries(self) -> IntArray:
        """These images, ascending, (m,)."""
        return self.base_test if self.queried == "test" else self.base_validation

    @property
    def training_images(self) -> IntArray:
        """Images the backbone is trained on, ascending, (m,)."""
        return self.base_train if self.extra_train is None else joined([self.base_train, self.extra_train])

    def digest(self) -> str:
        """sha256 over options, class keys and chosen file names: equal on every machine and for every data format."""

        def keys(classes: tuple[int, ...]) -> list[str]:
            return [self.class_keys[c] for c in classes]

        def names(indices: IntArray | None) -> list[str]:
            return [] if indices is None else [self.files[i] for i in indices]

        record: dict[str, Any] = {name: getattr(self, name) for name in ("name", "options", "listed_support")}
        record["sessions"] = [keys(session) for session in self.sessions]
        for what in ("base_classes", "novel_classes", "extra_classes", "development_classes"):
            record[what] = keys(getattr(self, what))
        for what in OF_BASE:
            record[what] = sorted(names(getattr(self, what)))  # sets: the image set's own order must not show
        for what in PER_CLASS:
            record[what] = [names(images) for images in getattr(self, what)]  # protocols take the first of each
        text = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def check_made_from(self, images: ImageSet) -> None:
        """Raise unless ``images`` has the classes and files, in order, of the set this split was made from."""
        if self.class_keys != images.class_keys or self.files != images.files:
            raise DataError(f"split {self.name!r} was made from another image set: class keys or file names differ")


@dataclass(frozen=True)
class SplitRecipe(ABC):
    """How a split is made: every option is a field."""

    kind: ClassVar[str]

    seed: int = 0

    @property
    def name(self) -> str:
        """As on the command line."""
        return f"{self.kind}:{self.seed}"

    @abstractmethod
    def make(self, images: ImageSet) -> Split:
        """The split of these images."""

    def split(
        self,
        images: ImageSet,
        base: Sequence[int],
        base_images: Sequence[Sequence[IntArray]],
        novel: Sequence[int],
        novel_images: Sequence[Sequence[IntArray]],
        **roles: Any,
    ) -> Split:
        """The split of these images under the recipe's name and options; ``roles`` are further fields.

        ``base_images`` are those for training, for validation and for test, each in any pieces; ``novel_images`` the
        support pools, what is left out, and the test images, each with one array per novel class.
        """
        train, validation, test = map(joined, base_images)
        pools, _, tests = map(tuple, novel_images)
        options = asdict(self)
        options.pop("lists", None)  # where the lists lie is no part of what they say
        return Split(
            name=self.name,
            options=options,
            base_classes=tuple(base),
            novel_classes=tuple(novel),
            base_train=train,
            base_validation=validation,
            base_test=test,
            novel_support_pool=pools,
            novel_test=tests,
            class_keys=images.class_keys,
            files=images.files,
            **roles,
        )
