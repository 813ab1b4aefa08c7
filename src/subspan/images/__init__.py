"""Images and splits: every data set in one form, and which of its classes and images serve which purpose."""

from subspan.images.errors import DataError
from subspan.images.imageset import ImageSet
from subspan.images.read import read_images
from subspan.images.splits.class_lists import RaviClasses, TieredClasses
from subspan.images.splits.fixed_sessions import FixedSessions
from subspan.images.splits.folder_sessions import FolderSessions
from subspan.images.splits.parse import SPLITS, SplitRecipe, parse_split
from subspan.images.splits.random_sessions import RandomSessions
from subspan.images.splits.split import Split

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
