"""Subspan: teach a trained classifier new classes from a handful of examples, without retraining or forgetting."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from subspan.classifier import IncrementalClassifier
    from subspan.engine.contract import Method
    from subspan.features.feature_set import FeatureSet
    from subspan.learners.published import list_systems
    from subspan.learners.registry import create_method, list_methods
    from subspan.state import SessionRecord

__version__ = "0.2.0"
__all__ = [
    "FeatureSet",
    "IncrementalClassifier",
    "Method",
    "SessionRecord",
    "create_method",
    "list_methods",
    "list_systems",
]
_HOMES = ("features", "methods", "systems", "classifier")


def __getattr__(name: str) -> Any:
    """Each name and its module when first asked for: they bring PyTorch, the estimator scikit-learn, too."""
    if name in _HOMES:
        return import_module(f".{name}", __name__)
    if name in __all__:
        for home in _HOMES:
            module = import_module(f".{home}", __name__)
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    """What there is, before it is asked for, too."""
    return sorted({*globals(), *__all__, *_HOMES})
