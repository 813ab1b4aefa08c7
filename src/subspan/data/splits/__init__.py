"""Splits: which classes are base and novel, and which images train, validate, support and test."""

from subspan.data.splits.class_lists import RaviClasses, TieredClasses
from subspan.data.splits.fixed_sessions import FixedSessions
from subspan.data.splits.folder_sessions import FolderSessions
from subspan.data.splits.parse import SPLITS, SplitRecipe, parse_split
from subspan.data.splits.random_sessions import RandomSessions
from subspan.data.splits.split import Split

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
