"""Coordinates in which features of one class scatter (nearly) alike in every direction: T(x) = W^(-power/2) (x - c).

W is the within-class covariance with its eigenvalues corrected. Where examples are fewer than dimensions, only the
coordinates in which classes can differ are kept; in all others W is one number, and only their total length counts.

Of few examples the large eigenvalues come out too large and the small ones too small. Quadratic-inverse shrinkage
corrects each by those around it, from the eigenvalues and the degrees of freedom alone, so that it can be done anew
after every sum: Ledoit and Wolf. Quadratic shrinkage for large covariance matrices. Bernoulli 28(3), 2022.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs

from subspan.arrays import Array, FloatArray
from subspan.learners.parts.blocks import MANY, blocks

FEW_EXAMPLES = 50  # beyond their classes' means, at which both corrections of eigenvalues count alike
ROUNDING = 1e-10  # of the largest eigenvalue: below this an eigenvalue is no more than rounding


@dataclass(frozen=True)
class WithinSpace:
    """The map T, and what W is along its coordinates."""

    centre: FloatArray  # (d,)
    basis: FloatArray  # (d, r): a feature's coordinates are its products with these
    values: FloatArray  # (r,): eigenvalues of W along them
    floor: float  # W along the d - r dimensions that have no coordinate
    power: float
    triangular: bool = False  # the basis is a lower triangle, with the stretch in it

    @property
    def width(self) -> int:
        return len(self.centre)

    @property
    def stretch(self) -> FloatArray:
        """What T multiplies each coordinate with (r,)."""
        return np.ones(len(self.values)) if self.triangular else self.values ** (-self.power / 2)

    @property
    def noise(self) -> float:
        """Expected squared length of T(x) - T(mean) of an example."""
        return float(
            np.sum(self.values ** (1 - self.power)) + (self.width - len(self.values)) * self.floor ** (1 - self.power)
        )

    def means(self, means: Array) -> FloatArray:
        """T of class means (..., C, d), as coordinates (..., C, r)."""
        if means.ndim > 2 or len(means) <= MANY:
            return (means - self.centre) @ self.basis * self.stretch
        placed = np.empty((len(means), len(self.values)), np.float32)
        change = np.asarray(self.basis * self.stretch, np.float32)
        by_triangle: Any = get_blas_funcs("trmm", dtype=np.float32)
        for part in blocks(len(means)):
            off = np.subtract(means[part], self.centre, dtype=np.float32, casting="same_kind")
            placed[part] = by_triangle(1.0, change.T, off.T, overwrite_b=1).T if self.triangular else off @ change
        return placed

    def as_triangle(self) -> "WithinSpace":
        """The same but for a rotation of its coordinates, in half as many products where no dimension is left out."""
        if self.basis.shape[0] > self.basis.shape[1]:
            return self
        triangle = np.linalg.qr((self.basis * self.stretch).T, mode="r")
        return replace(self, basis=np.asarray(triangle).T, triangular=True)


def space_of_matrix(
    scatter: Array, freedom: float, centre: FloatArray, power: float, unit: FloatArray | None
) -> WithinSpace:
    """From the scatter matrix (d, d) of examples with so many degrees of freedom; each feature in a unit (d,)."""
    covariance = np.asarray(scatter, np.float64) / (freedom if 0 < freedom < np.inf else 1)
    if unit is not None:
        covariance = covariance / unit / unit[:, None]
    values, vectors = np.linalg.eigh(covariance)
    live = live_count(values, freedom)
    corrected, floor = shrunk(values[len(values) - live :], freedom, len(values))
    basis = vectors if unit is None else vectors / unit[:, None]
    return WithinSpace(centre, basis, np.r_[np.full(len(values) - live, floor), corrected], floor, power)


def space_of_rows(rows: FloatArray, freedom: float, centre: FloatArray, power: float, means: FloatArray) -> WithinSpace:
    """From rows (k, d) of the scatter, k less than d, with the coordinates in which class means (C, d) differ."""
    _, lengths, directions = np.linalg.svd(rows, full_matrices=False)
    values = lengths[::-1] ** 2 / max(freedom, 1)
    live = live_count(values, freedom)
    corrected, floor = shrunk(values[len(values) - live :], freedom, rows.shape[1])
    own = directions[:live][::-1].T
    others = _directions_outside(means - centre, own)
    values = np.r_[np.full(others.shape[1], floor), corrected]
    return WithinSpace(centre, np.c_[others, own], values, floor, power)


def _directions_outside(vectors: FloatArray, basis: FloatArray) -> FloatArray:
    """Orthonormal directions (d, k) of what vectors (C, d) have outside the span of an orthonormal basis (d, r)."""
    outside = vectors - vectors @ basis @ basis.T
    outside -= outside @ basis @ basis.T  # once more, for what rounding left
    _, lengths, directions = np.linalg.svd(outside, full_matrices=False)
    longest = np.linalg.vector_norm(vectors, axis=1).max(initial=0)
    return directions[lengths > 1e-7 * longest].T


def live_count(values: FloatArray, freedom: float) -> int:
    """How many of the ascending eigenvalues (d,) are more than rounding; no more than there are degrees of freedom.

    >>> live_count(np.array([0.0, 1e-17, 0.5, 1.0]), freedom=9)
    2
    """
    live = int((values > values[-1] * ROUNDING).sum()) if len(values) and values[-1] > 0 else 0
    return int(min(live, freedom))


def shrunk(values: FloatArray, freedom: float, dimensions: int) -> tuple[FloatArray, float]:
    """Corrected eigenvalues (k,) of the k live ones, ascending, and the one for all other directions.

    ``freedom`` counts the examples less one for each mean that was taken off; infinite, nothing is corrected.

    >>> shrunk(np.array([0.5, 1.5]), np.inf, dimensions=2)
    (array([0.5, 1.5]), 0.5)
    """
    if not len(values):
        return values, 1.0
    if not np.isfinite(freedom):
        return values, float(values[0])
    count, total = len(values), float(values.sum())
    # Where there are fewer live directions than examples allow, the others are constant and take no part.
    width = count if count < min(dimensions, freedom) else dimensions
    ratio, inverse = width / freedom, 1 / values
    bandwidth = min(ratio, 1 / ratio) ** 0.7 / width**0.35
    gaps = inverse - inverse[:, None]
    kernel = inverse / (gaps**2 + (bandwidth * inverse) ** 2)
    pull = (kernel * gaps).mean(1)
    energy = pull**2 + (kernel * bandwidth * inverse).mean(1) ** 2
    if width <= freedom:
        found = 1 / (inverse * ((1 - ratio) ** 2 + 2 * ratio * (1 - ratio) * pull + ratio**2 * energy))
        null = float(found.min())
    else:
        found = 1 / (inverse * energy)
        null = float(1 / ((ratio - 1) * inverse.mean()))
    # With about as many examples as directions the smallest eigenvalues pile up at zero, further apart than the
    # kernel is wide: they are taken to be as large as the first that is not of the pile.
    pile = max(0, int(count**0.5) - abs(int(width - freedom)))
    if pile:
        found[:pile] = np.maximum(found[:pile], found[min(pile, count - 1)])
        null = max(null, float(found[0]))
    # The correction supposes many examples; of few, linear shrinkage is the safer one.
    chance = share_of_chance(values, freedom, width)
    trust = freedom / (freedom + FEW_EXAMPLES)
    mean = total / width
    found = found**trust * ((1 - chance) * values + chance * mean) ** (1 - trust)
    null = null**trust * max(chance * mean, ROUNDING * mean) ** (1 - trust)
    scale = total / (found.sum() + null * (width - count))
    return found * scale, null * scale


def share_of_chance(values: FloatArray, freedom: float, dimensions: int) -> float:
    """How much of the spread of eigenvalues (k,), the others 0, is chance; oracle-approximating shrinkage.

    Chen, Wiesel, Eldar and Hero. Shrinkage algorithms for MMSE covariance estimation. IEEE TSP 58(10), 2010.
    """
    squares, total = float((values**2).sum()), float(values.sum())
    above = (1 - 2 / dimensions) * squares + total**2
    below = (freedom + 1 - 2 / dimensions) * (squares - total**2 / dimensions)
    return min(1.0, above / below) if below > 0 else 1.0
