"""Splits by lists: of classes, Ravi's 64/16/20 of miniImageNet and tieredImageNet's 200(+151)/97/160; or of images.

Lists of images are those of Tao et al. (TOPIC, CVPR 2020), which nearly every later paper uses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from subspan.images.imageset import PARTS, DataError, ImageSet, IntArray
from subspan.images.lists import find_beside, find_list, read_csv, read_json
from subspan.images.splits.drawing import cut, divided, generator, joined, sorted_by_file
from subspan.images.splits.split import Split, SplitRecipe

LIST_NAMES = ("fscil-session-images.json.gz", "fscil-session-images.json")
PUBLISHED = resources.files("subspan.images.splits") / "published"  # the lists of the sets that this field reports on


@dataclass(frozen=True)
class ClassLists(SplitRecipe):
    """What both single-session splits share: base images with held-out queries, pools and tests of other classes."""

    train: int | None = None  # images per base class; None: all that are not held out
    validation: int = 0  # images per base class for choosing a recipe
    held_out: int = 100  # images per base class that serve as base queries
    novel_pool: int | None = None  # images per novel or development class for support; None: all but the test images
    novel_test: int = 100  # images per novel or development class that serve as queries
    lists: Path | str | None = None  # None: found beside the images

    @property
    def name(self) -> str:
        return self.kind if self.seed == 0 else super().name

    def of_classes(
        self, images: ImageSet, base: list[int], development: list[int], novel: list[int], extra: Sequence[int] = ()
    ) -> Split:
        counts, base_counts = (self.novel_pool, 0, self.novel_test), (self.train, self.validation, self.held_out)
        pool, _, development_test = divided(images, development, self.seed, counts)
        return self.split(
            images,
            base,
            divided(images, base, self.seed, base_counts),
            novel,
            divided(images, novel, self.seed, counts),
            sessions=(),
            extra_classes=tuple(extra),
            extra_train=joined([images.indices_of(c) for c in extra]) if extra else None,
            development_classes=tuple(development),
            development_support_pool=tuple(pool),
            development_test=tuple(development_test),
        )


@dataclass(frozen=True)
class RaviClasses(ClassLists):
    """Ravi and Larochelle's classes: train are base, val development, test novel.

    The classes come from ``lists`` (ravi.json, or the folder of train.csv, val.csv and test.csv), else from these files
    beside the images, else from the parts of the image set itself.
    """

    kind = "ravi"

    def make(self, images: ImageSet) -> Split:
        keys = self._keys(images)
        return self.of_classes(images, *([images.class_index(key) for key in keys[part]] for part in PARTS))

    def _keys(self, images: ImageSet) -> dict[str, list[str]]:
        if self.lists is None:
            path = None if images.source is None else find_beside(images.source, ("ravi.json", "train.csv"))
        else:
            given = Path(self.lists)
            path = find_list(images, given / "train.csv" if given.is_dir() else given, (), "split 'ravi'")
        if path is not None and path.suffix == ".csv":
            tables = {part: read_csv(path.with_name(f"{part}.csv")) for part in PARTS}
            return {part: list(dict.fromkeys(label for _, label in rows)) for part, rows in tables.items()}
        if path is not None:
            record = read_json(path)
            if not isinstance(record, dict) or not set(PARTS) <= set(record):
                raise DataError(f"{path} must be an object with lists of wnids under train, val and test")
            return {part: list(map(str, record[part])) for part in PARTS}
        if images.parts is not None and set(PARTS) <= set(images.parts):
            pairs = set(zip(images.parts, images.labels.tolist(), strict=True))
            return {part: sorted(images.class_keys[c] for own, c in pairs if own == part) for part in PARTS}
        raise DataError(
            f"split 'ravi' needs ravi.json or train.csv, val.csv and test.csv beside the images ({images.source}), or "
            "images that are themselves divided into train, val and test"
        )


@dataclass(frozen=True)
class TieredClasses(ClassLists):
    """Ren et al.'s classes: train part a is base, part b trains the backbone only, val is development, test novel."""

    kind = "tiered"

    def make(self, images: ImageSet) -> Split:
        """The split of these images; classes are found by wnid, or where the images have none by their words."""
        path = find_list(images, self.lists, ("classes.json",), "split 'tiered'")
        rows = read_json(path)
        known = {key: i for i, key in enumerate(images.class_keys)}
        chosen: dict[str, list[int]] = {"a": [], "b": [], "val": [], "test": []}
        try:
            for row in rows:
                names = (row["wnid"],) if images.wnids is not None else (row["words"], row["name"])
                found = [known[name] for name in names if name in known]
                if not found:
                    raise DataError(f"class {row['wnid']} ({row['words']}) is not among these {len(known)} classes")
                chosen[row["train_part"] or row["split"]].append(found[0])
        except (KeyError, TypeError) as error:
            raise DataError(f"{path} must list classes with wnid, words, split and train_part: {error!r}") from error
        return self.of_classes(images, chosen["a"], chosen["val"], chosen["test"], chosen["b"])


@dataclass(frozen=True)
class FixedSessions(SplitRecipe):
    """Classes, training, support and test images as the lists say.

    A novel class's pool begins with the listed support images, in the order of the list, and goes on with those of its
    images that are neither listed nor test images, by file name. The lists have no validation images: ``validation``
    holds so many training images of each base class out, drawn by ``seed``, for choosing a recipe.
    """

    kind = "fixed"

    validation: int = 0  # images per base class taken from the listed training images
    lists: Path | str | None = None  # fscil-session-images.json.gz; None: found beside the images, or the package's

    @property
    def name(self) -> str:
        return self.kind

    def make(self, images: ImageSet) -> Split:
        path, record = self._list_of(images)
        try:
            order: list[str] = record["class_order"]
            sessions: list[list[str]] = [session["classes"] for session in record["sessions"]]
            pairs = [zip(session["classes"], session["train"], strict=True) for session in record["sessions"]]
            listed = {key: files for session in pairs for key, files in session}
            test_files = dict(zip(order, record["test"], strict=True))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} must hold class_order, sessions and test: {error!r}") from error
        class_of = {key: images.class_index(key) for key in order}
        files = zip(images.labels.tolist(), images.files, strict=True)
        by_name = {(label, PurePosixPath(file).name): i for i, (label, file) in enumerate(files)}
        test = {key: _rows(images, by_name, key, test_files[key], path) for key in order}
        train = {key: _rows(images, by_name, key, listed[key], path) for key in order}

        kept, held_out = [], []
        for key in sessions[0]:
            shuffled = generator(self.seed, f"images of {key}").permutation(sorted_by_file(images, train[key]))
            validation, rest, _ = cut(shuffled, (self.validation, None, 0), f"the training list of class {key!r}")
            kept.append(rest)
            held_out.append(validation)
        novel = [key for session in sessions[1:] for key in session]
        pools = []
        for key in novel:
            unlisted = np.setdiff1d(images.indices_of(class_of[key]), np.concatenate([train[key], test[key]]))
            pools.append(np.concatenate([train[key], sorted_by_file(images, unlisted)]))
        return self.split(
            images,
            [class_of[key] for key in sessions[0]],
            [kept, held_out, [test[key] for key in sessions[0]]],
            [class_of[key] for key in novel],
            [pools, [], [test[key] for key in novel]],
            sessions=tuple(tuple(class_of[key] for key in session) for session in sessions[1:]),
            listed_support=min((len(train[key]) for key in novel), default=0),
        )

    def _list_of(self, images: ImageSet) -> tuple[Path, Any]:
        """The lists and what they say: those given, those beside the images, or the package's of these classes."""
        if self.lists is None and (images.source is None or find_beside(images.source, LIST_NAMES) is None):
            for entry in PUBLISHED.iterdir():
                with resources.as_file(entry) as path:
                    record = read_json(path)
                if set(record["class_order"]) <= set(images.class_keys):
                    return path, record
        path = find_list(images, self.lists, LIST_NAMES, "split 'fixed'")
        return path, read_json(path)


def _rows(images: ImageSet, by_name: dict[tuple[int, str], int], key: str, names: list[str], lists: Path) -> IntArray:
    """Indices of images of one class by bare file name."""
    class_index = images.class_index(key)
    try:
        return np.array([by_name[class_index, name] for name in names], dtype=np.int64)
    except KeyError as error:
        raise DataError(
            f"{lists.name} lists {error.args[0][1]} of class {key!r}, which is not among these images "
            f"({images.files[0]}, ...): the fixed split needs images with their file names"
        ) from None
