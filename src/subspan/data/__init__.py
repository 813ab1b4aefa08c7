"""Images and splits: every data set in one form, and which of its classes and images serve which purpose."""

from subspan.data.errors import DataError
from subspan.data.imageset import ImageSet
from subspan.data.read import read_images
from subspan.data.splits import (
    SPLITS,
    FixedSessions,
    FolderSessions,
    RandomSessions,
    RaviClasses,
    Split,
    SplitRecipe,
    TieredClasses,
    parse_split,
)

__all__ = [
    "SPLITS",
    "DataError",
    "FixedSessions",
    "FolderSessions",
    "ImageSet",
    "RandomSessions",
    "RaviClasses",
    "Split",
    "SplitRecipe",
    "TieredClasses",
    "parse_split",
    "read_images",
]
