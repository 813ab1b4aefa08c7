"""Doubtful photographs: those that would be taken for another class if they had not been taught.

Every photograph is judged by the default method taught the photographs of the other folds. Nothing in that model has
seen it: neither its class's mean nor the covariance, since a photograph that helped to make the covariance looks more
like its class than a new one does. benchmarks/doubtful.py compares it with cleanlab.
"""

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.catalogue.folds import by_folds
from subspan.model import Model

CERTAIN = 0.95  # probability of another class from which a photograph is worth naming


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
