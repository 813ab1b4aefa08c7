"""Eigenvalues of a covariance as they would be on new data, by quadratic-inverse shrinkage.

Of few examples the large eigenvalues come out too large and the small ones too small. This corrects each by those
around it, from the eigenvalues and the degrees of freedom alone, so that it can be done anew after every sum.

Ledoit and Wolf. Quadratic shrinkage for large covariance matrices. Bernoulli 28(3), 2022.
"""

import numpy as np

from subspan.arrays import FloatArray

ROUNDING = 1e-10  # of the largest eigenvalue: below this an eigenvalue is no more than rounding


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
    scale = total / (found.sum() + null * (width - count))
    return found * scale, null * scale
