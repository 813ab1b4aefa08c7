"""Scatter of examples about the mean of their class, in a form that adds up: rows R with scatter R^T R, or the matrix.

Rows are smaller while examples are few. They are rotated, so that they keep the scatter and no example.
"""

import numpy as np

from subspan.arrays import Array, FloatArray

FEW = 4  # rows are kept while they are fewer than the dimensions by this factor
SMALL = 64  # in fewer dimensions the matrix is no burden


def contrasts(examples: Array) -> FloatArray:
    """Rows (n - 1, d) with the scatter of one class's examples (n, d): each less the mean of those before it.

    >>> contrasts(np.array([[1.0, 0.0], [3.0, 0.0]])).round(4)
    array([[1.4142, 0.    ]])
    """
    before = np.arange(1, len(examples))[:, None]
    return np.sqrt(before / (before + 1)) * (examples[1:] - np.cumsum(examples, 0)[:-1] / before)


def rotated(rows: FloatArray) -> FloatArray:
    """At most d rows (k, d) with the same scatter, which do not tell what they were made of."""
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) else rows


def step(count: float, mean: FloatArray, more: float, mean_of_more: FloatArray) -> FloatArray:
    """The row (1, d) that joining two parts of a class adds to their scatters; none (0, d) where one is empty."""
    if not count or not more:
        return np.empty((0, len(mean)))
    return np.sqrt(count * more / (count + more)) * (mean_of_more - mean)[None]


def fits_in_rows(count: int, width: int) -> bool:
    """Whether so many rows are kept as rows."""
    return width >= SMALL and count * FEW < width
