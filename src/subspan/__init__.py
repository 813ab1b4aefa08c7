"""Subspan: teach a trained classifier new classes from a handful of examples, without retraining or forgetting."""

from typing import TYPE_CHECKING, Any

from subspan import extras, old_names

if TYPE_CHECKING:
    from subspan.catalogue.catalogue import Catalogue
    from subspan.classifier import IncrementalClassifier
    from subspan.engine.contract import Learner
    from subspan.features.feature_set import load_features
    from subspan.learners.registry import list_methods, register

__version__ = "0.2.0"
__all__ = ["Catalogue", "IncrementalClassifier", "Learner", "list_methods", "load_features", "register"]
_HOMES = {
    "Catalogue": "subspan.catalogue.catalogue",
    "IncrementalClassifier": "subspan.classifier",
    "Learner": "subspan.engine.contract",
    "list_methods": "subspan.learners.registry",
    "load_features": "subspan.features.feature_set",
    "register": "subspan.learners.registry",
}


def __getattr__(name: str) -> Any:
    """Each name when first asked for: some bring PyTorch, the estimator scikit-learn, too."""
    if name in _HOMES:
        return getattr(extras.imported(_HOMES[name]), name)
    try:
        return old_names.find(__name__, name)
    except AttributeError:
        if name.startswith("_"):
            raise
    try:
        return extras.imported(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None


def __dir__() -> list[str]:
    """What there is, before it is asked for, too."""
    return list(__all__)
