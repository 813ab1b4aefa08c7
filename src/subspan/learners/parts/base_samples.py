"""Base training features as a feature file's statistics describe them: seeded draws from one Gaussian per class.

A feature file keeps the class means and the pooled within-class covariance of the base training features, not the
features. Systems that need more of them, in another space or example by example, get these draws instead.
"""

import torch
from torch import Tensor


def base_samples(means: Tensor, covariance: Tensor, count: int, seed: int) -> Tensor:
    """Draws (C0, count, d) from N(mean of the class, pooled covariance); means (C0, d), covariance (d, d)."""
    drawn = noise((len(means), count, means.shape[1]), seed, means)
    return means[:, None] + drawn @ root_of(covariance).mT


def root_of(covariance: Tensor) -> Tensor:
    """R (d, d) with R R^T the covariance, which may be singular; rounding below zero counts as zero.

    >>> root = root_of(torch.tensor([[4.0, 0.0], [0.0, 0.0]]))
    >>> root @ root.mT
    tensor([[4., 0.],
            [0., 0.]])
    """
    values, vectors = torch.linalg.eigh(covariance.double())
    return (vectors * values.clamp(min=0).sqrt()).to(covariance)


def noise(shape: tuple[int, ...], seed: int, like: Tensor) -> Tensor:
    """Standard normal numbers that depend on nothing but shape and seed, on another tensor's device, in its type."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(like)
