"""Subspan: teach a trained classifier new classes from a handful of examples, without retraining or forgetting."""

from typing import TYPE_CHECKING, Any

from .features import FeatureSet
from .methods import Method, create_method, list_methods
from .systems import list_systems

if TYPE_CHECKING:
    from .classifier import IncrementalClassifier, SessionRecord

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


def __getattr__(name: str) -> Any:
    """The estimator when it is first asked for: it brings scikit-learn, which the workers of a protocol do without."""
    if name not in ("IncrementalClassifier", "SessionRecord"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from . import classifier

    return getattr(classifier, name)


def __dir__() -> list[str]:
    """The estimator among the other names, before it is asked for, too."""
    return sorted({*globals(), *__all__})
