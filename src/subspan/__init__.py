"""Subspan: teach a trained classifier new classes from a handful of examples, without retraining or forgetting."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:
    """Each name when it is first asked for: all bring PyTorch, the estimator scikit-learn, too."""
    if name in __all__:
        for home in ("features", "methods", "systems", "classifier"):
            module = import_module(f".{home}", __name__)
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    """What there is, before it is asked for, too."""
    return sorted({*globals(), *__all__})
