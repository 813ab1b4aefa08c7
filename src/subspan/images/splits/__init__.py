"""Splits: which classes are base and novel, and which images train, validate, support and test."""

from subspan.images.splits.class_lists import RaviClasses, TieredClasses
from subspan.images.splits.fixed_sessions import FixedSessions
from subspan.images.splits.folder_sessions import FolderSessions
from subspan.images.splits.parse import SPLITS, SplitRecipe, parse_split
from subspan.images.splits.random_sessions import RandomSessions
from subspan.images.splits.split import Split

__all__ = [
    "SPLITS",
    "FixedSessions",
    "FolderSessions",
    "RandomSessions",
    "RaviClasses",
    "Split",
    "SplitRecipe",
    "TieredClasses",
    "parse_split",
]
