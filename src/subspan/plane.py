"""The two principal components of the rows of a head: where the maps of the weight space draw them."""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def principal_plane(rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mean ``(d,)``, two principal directions ``(2, d)`` and their shares of variance ``(2,)`` of ``rows (n, d)``.

    The sign of a direction is fixed by making its largest coordinate positive.
    """
    mean = rows.mean(axis=0)
    _, singular, directions = np.linalg.svd(rows - mean, full_matrices=False)
    shares = singular**2 / max(float((singular**2).sum()), np.finfo(float).tiny)
    plane, share = np.zeros((2, rows.shape[1])), np.zeros(2)
    kept = min(2, len(directions))
    plane[:kept], share[:kept] = directions[:kept], shares[:kept]
    largest = np.take_along_axis(plane, np.abs(plane).argmax(axis=1)[:, None], axis=1)
    return mean, plane * np.where(largest < 0, -1.0, 1.0), share
