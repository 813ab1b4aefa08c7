"""Base training features as a feature file's statistics describe them: seeded draws from one Gaussian per class.

A feature file keeps the class means and the pooled within-class covariance of the base training features, not the
features. Systems that need more of them, in another space or example by example, get these draws instead.
"""

import numpy as np

from subspan.arrays import FloatArray


def base_samples(means: FloatArray, covariance: FloatArray, count: int, seed: int) -> FloatArray:
    """Draws (C0, count, d) from N(mean of the class, pooled covariance); means (C0, d), covariance (d, d)."""
    drawn = noise((len(means), count, means.shape[1]), seed, means)
    return means[:, None] + drawn @ root_of(covariance).T


def root_of(covariance: FloatArray) -> FloatArray:
    """R (d, d) with R R^T the covariance, which may be singular; rounding below zero counts as zero.

    >>> root = root_of(np.array([[4.0, 0.0], [0.0, 0.0]]))
    >>> root @ root.T
    array([[4., 0.],
           [0., 0.]])
    """
    values, vectors = np.linalg.eigh(covariance.astype(np.float64))
    return (vectors * np.sqrt(np.maximum(values, 0))).astype(covariance.dtype)


def noise(shape: tuple[int, ...], seed: int, like: FloatArray) -> FloatArray:
    """Standard normal numbers that depend on nothing but shape and seed, in another array's type."""
    import torch  # whose generator drew what is behind the printed figures

    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).numpy().astype(like.dtype)
