"""A classifier of photographs that grows: a store, a pretrained backbone and an incremental classifier in one hand."""

from subspan.catalogue.catalogue import Catalogue, undo_last
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.export import ExportReport
from subspan.catalogue.options import CatalogueOptions
from subspan.catalogue.photographs import open_class_photographs
from subspan.catalogue.records import (
    Candidate,
    CheckChange,
    ClassAccuracy,
    ClassEntry,
    Evaluation,
    InitReport,
    MapPoint,
    Prediction,
    SessionEntry,
    Taken,
    TeachReport,
    TradeOff,
    WeightMap,
)

__all__ = [
    "Candidate",
    "Catalogue",
    "CatalogueError",
    "CatalogueOptions",
    "CheckChange",
    "ClassAccuracy",
    "ClassEntry",
    "Evaluation",
    "ExportReport",
    "InitReport",
    "MapPoint",
    "Prediction",
    "SessionEntry",
    "Taken",
    "TeachReport",
    "TradeOff",
    "WeightMap",
    "open_class_photographs",
    "undo_last",
]
