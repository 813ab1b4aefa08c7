"""Vectors as learners compare them, NumPy arrays and tensors alike: at length one, by cosine, by distance, blended."""

import numpy as np

from subspan.arrays import Array, functions_of, is_tensor, unit


def log_sum(scores: Array) -> Array:
    """The logarithm of the sum of the exponentials of scores (..., C), (...)."""
    if is_tensor(scores):
        return functions_of(scores).logsumexp(scores, -1)
    greatest = scores.max(-1, keepdims=True)
    return np.log(np.exp(scores - greatest).sum(-1)) + greatest[..., 0]


def softmax(scores: Array) -> Array:
    """Shares (..., n) that add up to one, by the exponentials of scores.

    >>> softmax(np.log(np.array([[1.0, 3.0]])))
    array([[0.25, 0.75]])
    """
    if is_tensor(scores):
        return scores.softmax(-1)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def drawn_towards(own: Array, known: Array, share: float, sharpness: float) -> Array:
    """Unit vectors (..., K, d) with a ``share`` of the unit vectors known (C, d) that they resemble, by a softmax.

    >>> drawn_towards(np.array([[1.0, 0.0]]), np.eye(2), share=0.5, sharpness=0.0).round(4)
    array([[0.9239, 0.3827]])
    """
    similar = softmax(sharpness * own @ known.mT)
    return unit((1 - share) * own + share * unit(similar @ known))


def cosine_scores(rows: Array, queries: Array) -> Array:
    """Cosines (*batch, q, C) of queries (q, d) and rows (*batch, C, d).

    >>> cosine_scores(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """
    return unit(queries) @ unit(rows).mT


def euclidean_scores(rows: Array, queries: Array) -> Array:
    """Negative squared distances (*batch, q, C) of queries (q, d) and rows (*batch, C, d).

    >>> euclidean_scores(np.array([[2.0, 0.0], [3.0, 3.0]]), np.array([[3.0, 4.0]]))
    array([[-17.,  -1.]])
    """
    lengths = (queries * queries).sum(-1)[..., :, None] + (rows * rows).sum(-1)[..., None, :]
    return 2 * queries @ rows.mT - lengths
