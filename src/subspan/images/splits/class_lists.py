"""Single-session splits by lists of classes: Ravi's 64/16/20 of miniImageNet and tieredImageNet's 200(+151)/97/160."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from subspan.images.errors import DataError
from subspan.images.imageset import PARTS, ImageSet
from subspan.images.lists import find_beside, find_list, read_csv, read_json
from subspan.images.splits.drawing import divided, joined
from subspan.images.splits.split import Split, SplitRecipe


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
