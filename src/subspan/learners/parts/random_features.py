"""Ridge regression on random non-linear features: their sums, the regression, and its strength by held-out examples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from subspan.arrays import FloatArray


@dataclass(frozen=True)
class ProjectedDraws:
    """Examples of some classes up to their means and own factors V, which differ from problem to problem."""

    projection: FloatArray  # R (d, M)
    spread: FloatArray  # (C, n, M): x R of draws x from the pooled covariance
    own: FloatArray  # (C, n, factors): how much of each row of V is in an example

    def random_features(self, means: FloatArray, factors: FloatArray) -> FloatArray:
        """h (C, n, M) for means (C, d) and factors (C, factors, d), which are projected before they are added up.

        >>> draws = ProjectedDraws(np.eye(2), np.array([[[0.0, -4.0]]]), np.array([[[2.0]]]))
        >>> draws.random_features(np.array([[1.0, 1.0]]), np.array([[[3.0, 0.0]]]))
        array([[[7., 0.]]])
        """
        found = self.own @ (factors @ self.projection)
        found += self.spread
        found += (means @ self.projection)[:, None]
        return np.maximum(found, 0, out=found)


def random_features(features: FloatArray, projection: FloatArray) -> FloatArray:
    """h (..., M) of features (..., d) by a projection (d, M)."""
    return np.maximum(features @ projection, 0)


def moments(features: FloatArray) -> tuple[FloatArray, FloatArray]:
    """G (M, M) and Q (C, M) of features (C, n, M), means over the examples of each class.

    >>> moments(np.array([[[1.0, 0.0], [3.0, 2.0]]]))
    (array([[5., 3.],
           [3., 2.]]), array([[2., 1.]]))
    """
    flat = features.reshape(-1, features.shape[-1])
    return flat.T @ flat / features.shape[1], features.mean(1)


def ridge_rows(gram: FloatArray, sums: FloatArray, ridge: float) -> FloatArray:
    """Q (G + lambda I)^-1 (C, M) with lambda the mean diagonal of G times ``ridge``.

    >>> ridge_rows(np.diag([3.0, 1.0]), np.array([[5.0, 6.0]]), 1.0)
    array([[1., 2.]])
    """
    scale = np.diag(gram).mean()
    return solved_rows(gram, sums, ridge * scale if scale > 0 else 1.0, "pos")


def solved_rows(gram: FloatArray, sums: FloatArray, ridge: float, kind: Literal["pos", "sym"] = "sym") -> FloatArray:
    """Q (G + lambda I)^-1 (C, M) with lambda ``ridge``; "sym" where it may be lost in rounding."""
    shifted = gram.astype(np.float64)  # of fewer examples than M, single precision leaves no digit
    shifted[np.diag_indices_from(shifted)] += ridge
    return solve(shifted, sums.T, assume_a=kind, overwrite_a=True).T.astype(sums.dtype)


def held_out_ridge(
    features: FloatArray, labels: NDArray[np.intp], ridges: Sequence[float], share: float = 0.8
) -> float:
    """Which lambda has the smallest mean squared error on the last examples, learned from a ``share`` before them.

    Features (n, M), labels (n,). One decomposition serves all: of the examples' products, if they are fewer than M. A
    lambda that float32 loses beside it is left out: there the released codes choose by rounding.
    """
    at = int(len(features) * share)
    targets = np.eye(int(labels.max()) + 1)[labels]
    learned, asked = features[:at].astype(np.float64), features[at:].astype(np.float64)
    if at < learned.shape[1]:
        values, vectors = np.linalg.eigh(learned @ learned.T)
        seen, aims = asked @ learned.T @ vectors, vectors.T @ targets[:at]
    else:
        values, vectors = np.linalg.eigh(learned.T @ learned)
        seen, aims = asked @ vectors, vectors.T @ learned.T @ targets[:at]
    values = np.maximum(values, 0)
    ridges = [r for r in ridges if r > np.finfo(np.float32).eps * values.max()] or [max(ridges)]
    errors = {r: ((seen @ (aims / (values[:, None] + r)) - targets[at:]) ** 2).mean() for r in ridges}
    return min(errors, key=errors.__getitem__)
