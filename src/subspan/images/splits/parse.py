"""Splits by name, as on the command line."""

from dataclasses import replace
from pathlib import Path

from subspan.images.imageset import DataError
from subspan.images.splits.listed import FixedSessions, RaviClasses, TieredClasses
from subspan.images.splits.sessions import FolderSessions, RandomSessions
from subspan.images.splits.split import SplitRecipe

SPLITS = {
    "random:SEED": "random base classes and sessions; random:SEED:pooled divides base images as the released code "
    "does, random:SEED:validation is without test images, for choices",
    "fixed": "the published FSCIL split of miniImageNet, CIFAR-100 or CUB-200, image by image",
    "LIST.json": "a split of your own in the same form, image by image; LIST.json.gz too",
    "ravi": "64/16/20 classes of miniImageNet by ravi.json or the CSVs, base queries held out; ravi:SEED draws others",
    "tiered": "200(+151)/97/160 classes of tieredImageNet by its classes.json; tiered:SEED draws other images",
    "folder": "any images of your own by fractions; folder:SEED draws others",
}


def parse_split(text: str, lists: Path | str | None = None) -> SplitRecipe:
    """The recipe a name stands for, with the path of its list file where it needs one.

    >>> parse_split("random:3:pooled")
    RandomSessions(seed=3, pooled=True, ...)
    """
    kind, *rest = text.strip().split(":")
    if text.endswith((".json", ".json.gz")):
        return FixedSessions(lists=text)
    if kind == RandomSessions.kind and rest:
        digits, *words = rest
        if words in ([], ["pooled"], ["validation"], ["pooled", "validation"]):
            plain = RandomSessions(seed=_seed(text, digits), pooled="pooled" in words)
            return plain.for_choices() if "validation" in words else plain
    elif kind == FixedSessions.kind and not rest:
        return FixedSessions(lists=lists)
    elif len(rest) <= 1:
        seed = _seed(text, rest[0]) if rest else 0
        for recipe in (RaviClasses(lists=lists), TieredClasses(lists=lists), FolderSessions()):
            if kind == recipe.kind:
                return replace(recipe, seed=seed)
    more = "random:SEED:pooled and random:SEED:validation"
    raise DataError(f"split {text!r} does not exist; there are {', '.join(SPLITS)}, {more}")


def _seed(text: str, digits: str) -> int:
    if not digits.isdecimal():
        raise DataError(f"the seed of split {text!r} must be 0 or more, got {digits!r}")
    return int(digits)
