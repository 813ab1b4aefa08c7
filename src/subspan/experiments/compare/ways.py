"""Ways of adding classes, ours and what people would write instead: each takes the sessions one by one.

The settings of scikit-learn's are those that served each best on development photographs: features as they are or of
unit length rather than standardised, one neighbour rather than three or five.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, normalize
from sklearn.svm import LinearSVC

from subspan.classifier import IncrementalClassifier
from subspan.learners.registry import AUTO, create_method, summary_of

Features, Labels = NDArray[np.float32], NDArray[np.int64]
OURS, PUBLISHED = "subspan", ("ranpac", "fecam", "teen", "slda")
PENALTIES, RIDGES, FOLDS = np.logspace(-2, 2, 5), np.logspace(-2, 4, 7), 3


class Way(ABC):
    """Something that learns sessions and names classes."""

    @abstractmethod
    def learn(self, X: Features, y: Labels) -> None:
        """Learn a session: features (n, d), and the numbers of classes that are all new to it (n,)."""

    @abstractmethod
    def predict(self, X: Features) -> Labels:
        """The classes (n,) of features (n, d)."""

    @abstractmethod
    def bytes_kept(self) -> int:
        """What it must keep to answer and to learn the next session."""


class Incremental(Way):
    """`IncrementalClassifier`: learns what arrives, and keeps no example."""

    def __init__(self, method: str = AUTO) -> None:
        self.model = IncrementalClassifier(method=method)

    def learn(self, X: Features, y: Labels) -> None:
        if hasattr(self.model, "classes_"):
            self.model.add_classes(X, y)
        else:
            self.model.fit(X, y)

    def predict(self, X: Features) -> Labels:
        return np.asarray(self.model.predict(X))

    def bytes_kept(self) -> int:
        return sum(array.nbytes for array in self.model.to_version().arrays.values())


class Refit(Way):
    """A scikit-learn estimator, learned again at every session from all examples so far."""

    def __init__(self, make: Callable[[Features, Labels], Any]) -> None:
        self.make, self.X, self.y = make, np.empty((0, 0), np.float32), np.empty(0, np.int64)

    def learn(self, X: Features, y: Labels) -> None:
        self.X = np.concatenate([self.X.reshape(-1, X.shape[1]), X])
        self.y = np.concatenate([self.y, y])
        self.model = self.make(self.X, self.y).fit(self.X, self.y)

    def predict(self, X: Features) -> Labels:
        return np.asarray(self.model.predict(X))

    def bytes_kept(self) -> int:
        return array_bytes([self.X, self.y, self.model])


class Centroids(Way):
    """What NearestCentroid does, on features of unit length, without the old examples: its means are all it needs."""

    def __init__(self) -> None:
        self.means: dict[int, Features] = {}

    def learn(self, X: Features, y: Labels) -> None:
        unit = normalize(X)
        self.means |= {int(label): unit[y == label].mean(0) for label in np.unique(y)}

    def predict(self, X: Features) -> Labels:
        distances = cdist(np.asarray(normalize(X)), np.stack(list(self.means.values())))
        return np.array(list(self.means))[distances.argmin(axis=1)]

    def bytes_kept(self) -> int:
        return array_bytes(list(self.means.values()))


class Logistic:
    """Makes logistic regressions with the C that cross-validation of the base session chose."""

    def __init__(self) -> None:
        self.chosen: Any = None

    def __call__(self, X: Features, y: Labels) -> Any:
        if self.chosen is None:
            self.chosen = LogisticRegression(class_weight="balanced", tol=1e-3, max_iter=300)
            if (folds := min(FOLDS, *Counter(y.tolist()).values())) > 1:
                search = GridSearchCV(self.chosen, {"C": PENALTIES}, cv=folds, scoring="balanced_accuracy", refit=False)
                self.chosen.set_params(**search.fit(X, y).best_params_)
        return clone(self.chosen)


def _lda(_: Features, y: Labels) -> Any:
    classes = len(np.unique(y))
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=np.full(classes, 1 / classes))


def _ridge(*_: Any) -> Any:
    return RidgeClassifierCV(RIDGES, class_weight="balanced")


def _svm(*_: Any) -> Any:
    return make_pipeline(Normalizer(), LinearSVC(class_weight="balanced"))


def _neighbours(*_: Any) -> Any:
    return KNeighborsClassifier(1, metric="cosine")


@dataclass(frozen=True)
class Kind:
    """A way as it is listed."""

    make: Callable[[], Way]
    meaning: str
    old_examples: bool  # must be kept to learn another session


def _ours(spec: str, meaning: str = "") -> Kind:
    meaning = meaning or f"ours, {summary_of(create_method(spec).name)}"
    return Kind(lambda: Incremental(spec), meaning, old_examples=False)


def _refit(make: Callable[[], Callable[..., Any]], meaning: str) -> Kind:
    return Kind(lambda: Refit(make()), f"scikit-learn's {meaning}", old_examples=True)


def kinds() -> dict[str, Kind]:
    """All ways that are compared unless others are named, by name."""
    return {
        OURS: _ours(AUTO, "IncrementalClassifier() with its defaults"),
        "logistic": _refit(Logistic, "LogisticRegression, balanced, C by cross-validation of the base session"),
        "lda": _refit(lambda: _lda, "LinearDiscriminantAnalysis, Ledoit and Wolf's shrinkage, equal priors"),
        "ridge": _refit(lambda: _ridge, "RidgeClassifierCV, balanced"),
        "svm": _refit(lambda: _svm, "LinearSVC, balanced, C = 1, features of unit length"),
        "centroid": Kind(Centroids, "scikit-learn's NearestCentroid, features of unit length", old_examples=False),
        "knn": _refit(lambda: _neighbours, "KNeighborsClassifier, the nearest one by cosine"),
        **{spec: _ours(spec) for spec in PUBLISHED},
    }


def kind_named(name: str) -> Kind:
    """A way by its name, or the method of ours that ``NAME[:option=value,...]`` means."""
    known = kinds()
    return known[name] if name in known else _ours(name)


def array_bytes(holder: Any) -> int:
    """Bytes of all arrays that an object holds, each counted once.

    >>> one = np.zeros(4)
    >>> array_bytes({"a": one, "b": [one, np.zeros(2)]})
    48
    """
    seen, arrays, waiting = set[int](), dict[int, int](), [holder]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            arrays[one.__array_interface__["data"][0]] = one.nbytes
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif hasattr(one, "__dict__") and not isinstance(one, type):
            waiting += vars(one).values()
    return sum(arrays.values())
