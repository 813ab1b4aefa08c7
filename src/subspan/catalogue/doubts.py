"""Doubtful photographs: those that would be taken for another class if they had not been taught.

Every photograph is judged by a Gaussian model of its features that has not seen it: neither its class's mean nor the
covariance, since a photograph that helped to make the covariance looks more like its class than a new one does.
benchmarks/doubtful.py compares it with cleanlab.
"""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.catalogue.errors import Doubt
from subspan.catalogue.folds import folds_of
from subspan.learners.parts.vectors import unit

POWER = 0.6  # of the covariance within classes that is divided out
CERTAIN = 0.999  # probability of another class from which a photograph is worth naming
FEW_FEATURES = 64  # in fewer dimensions the length of a feature says too much to be taken off


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
    probabilities = left_out_probabilities(features, labels)
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


def left_out_probabilities(features: FloatArray, labels: NDArray[np.integer]) -> FloatArray:
    """Probability (n, C) of every class for every example, by models that were not taught it; labels (n,) 0 .. C - 1.

    That of the own class, the self-confidence, ranks examples by how well their labels fit.
    """
    scores = left_out_scores(features, labels)
    scores = scores / max(1.0, features.shape[1] ** 0.5 / 3)  # features are less independent than they are many
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def left_out_scores(features: FloatArray, labels: NDArray[np.integer]) -> FloatArray:
    """Log density (n, C) of every example under every class, by models of the other folds."""
    features = np.asarray(features, np.float64)
    if features.shape[1] >= FEW_FEATURES:
        features = unit(np.sign(features) * np.sqrt(np.abs(features)))
    fold = folds_of(labels)
    scores = np.empty((len(labels), labels.max() + 1))
    for number in np.unique(fold):
        out = fold == number
        scores[out] = _log_densities(features[~out], labels[~out], features[out], scores.shape[1])
    return scores


def _log_densities(features: FloatArray, labels: NDArray[np.integer], queries: FloatArray, classes: int) -> FloatArray:
    """Log densities (q, C) of queries, where examples (n, d) teach; a class may have none."""
    counts, means = _means(features, labels, classes)
    taught = counts > 0
    transform = _transform(features - means[labels], len(labels) - taught.sum(), features.shape[1])
    centre = means[taught].mean(0) if taught.any() else 0.0
    features, queries = transform(features - centre), transform(queries - centre)
    counts, means = _means(features, labels, classes)
    width = features.shape[1]
    freedom = max(len(labels) - int(taught.sum()), 1)
    noise = max(((features - means[labels]) ** 2).sum() / freedom / width, 1e-12)
    centre = means[taught].mean(0) if taught.any() else np.zeros(width)
    spread = ((means[taught] - centre) ** 2).sum() / max(taught.sum() - 1, 1) / width
    prior = max(spread - np.mean(noise / counts[taught]) if taught.any() else 0.0, 1e-3 * noise)
    keep = prior * counts / (prior * counts + noise)  # 0 for a class without examples: it is anywhere
    means = centre + keep[:, None] * (means - centre)
    variance = noise + (1 - keep) * prior
    square = (queries**2).sum(1)[:, None] - 2 * queries @ means.T + (means**2).sum(1)
    return -square / (2 * variance) - width / 2 * np.log(variance)


def _means(features: FloatArray, labels: NDArray[np.integer], classes: int) -> tuple[FloatArray, FloatArray]:
    """Counts (C,) and means (C, d) of classes."""
    sums = np.zeros((classes, features.shape[1]))
    np.add.at(sums, labels, features)
    counts = np.bincount(labels, minlength=classes).astype(np.float64)
    return counts, sums / np.maximum(counts, 1)[:, None]


def _transform(residuals: FloatArray, freedom: int, width: int) -> Callable[[FloatArray], FloatArray]:
    """The map of features (., d) to coordinates where classes scatter nearly alike, at length one unless they are few.

    Eigenvalues are shrunk to their mean by the share of Chen et al., "Shrinkage algorithms for MMSE covariance
    estimation" (OAS, 2010), which needs traces only.
    """
    few, freedom = width < FEW_FEATURES, max(freedom, 1)
    if few:
        gram = residuals.T @ residuals / freedom
        scale = np.sqrt(np.where(np.diagonal(gram) > 0, np.diagonal(gram), 1))
    else:
        scale = np.ones(width)
    residuals = residuals / scale
    values, basis = _principal(residuals)
    values = values / freedom
    total, squares = values.sum(), (values**2).sum()
    if total <= 0:
        return lambda x: x / scale if few else unit(x)
    above = squares * (1 - 2 / width) + total**2
    share = min(1.0, above / max((freedom + 1 - 2 / width) * (squares - total**2 / width), 1e-300))
    power = -(1.0 if few else POWER) / 2
    floor = max(share * total / width, 1e-9 * values.max())
    stretch, outside = np.maximum((1 - share) * values + share * total / width, floor) ** power, floor**power

    def transform(x: FloatArray) -> FloatArray:
        x = x / scale
        x = outside * x + ((x @ basis) * (stretch - outside)) @ basis.T
        return x if few else unit(x)

    return transform


def _principal(residuals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (r,) and eigenvectors (d, r) of residuals' residuals, by the smaller of the two products."""
    if len(residuals) >= residuals.shape[1]:
        return np.linalg.eigh(residuals.T @ residuals)
    values, vectors = np.linalg.eigh(residuals @ residuals.T)
    live = values > 1e-12 * values.max(initial=0)
    return values[live], residuals.T @ (vectors[:, live] / np.sqrt(values[live]))
