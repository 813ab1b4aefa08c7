"""Subspan: teach a trained classifier new classes from a handful of examples, without retraining or forgetting."""

from .classifier import IncrementalClassifier, SessionRecord
from .features import FeatureSet
from .methods import Method, create_method, list_methods
from .systems import list_systems

__version__ = "0.1.0"
__all__ = [
    "FeatureSet",
    "IncrementalClassifier",
    "Method",
    "SessionRecord",
    "create_method",
    "list_methods",
    "list_systems",
]
