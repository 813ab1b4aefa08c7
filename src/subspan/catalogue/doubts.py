"""Doubtful photographs: those that would be taken for another class if they had not been taught.

Every photograph is judged by the default method taught the photographs of the other folds. Nothing in that model has
seen it: neither its class's mean nor the covariance, since a photograph that helped to make the covariance looks more
like its class than a new one does. benchmarks/doubtful.py compares it with cleanlab.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.catalogue.errors import Doubt
from subspan.catalogue.folds import by_folds
from subspan.learners.parts.vectors import softmax
from subspan.model import Model

CERTAIN = 0.95  # probability of another class from which a photograph is worth naming


def find_doubts(
    features: FloatArray, names: Sequence[str], photographs: Sequence[str], judged: Iterable[int] | None = None
) -> list[Doubt]:
    """Photographs that are almost certainly of another class, the most certain first.

    Where half of a class looks otherwise, it is the class that lies close to another one, and none of it is named.

    Parameters
    ----------
    features : (n, d), of all that is known. names, photographs : the class and what to call each, (n,).
    judged : places of those that may be named; all by default.
    """
    classes, labels = np.unique(np.asarray(names), return_inverse=True)
    if len(classes) < 2:
        return []
    probabilities = softmax(left_out_scores(features, labels))
    probabilities[np.arange(len(labels)), labels] = 0
    others = probabilities.argmax(axis=1)
    certain = probabilities.max(axis=1)
    counts = np.bincount(labels)
    sound = 2 * np.bincount(labels, certain >= CERTAIN) < counts
    found = [
        Doubt(photographs[place], names[place], str(classes[others[place]]), round(float(certain[place]), 4))
        for place in (range(len(labels)) if judged is None else judged)
        if certain[place] >= CERTAIN and sound[labels[place]]
    ]
    return sorted(found, key=lambda one: -one.probability)


def left_out_scores(features: FloatArray, labels: NDArray[np.integer]) -> FloatArray:
    """Log probability (n, C) of every class for every example, by models that were not taught it; labels 0 .. C - 1.

    That of the own class ranks examples by how well their labels fit.
    """
    scores = np.zeros((len(labels), labels.max() + 1))  # as it stays where the others are of one class only
    for model, asked in by_folds(lambda left: Model(method="posterior").fit(features[left], labels[left]), labels):
        found = model.class_scores(features[asked])
        scores[asked] = found.min(axis=1, keepdims=True)  # of a class of which no other example is known
        scores[np.ix_(asked, model.classes_)] = found
    return scores
