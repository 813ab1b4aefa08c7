"""What few examples say of a class's mean, given how the means of the base classes lie: a Gaussian posterior.

The prior of a mean is a Gaussian about the middle of all classes. Its covariance is the same in every direction, with a
share of the base means' own covariance: new classes are expected along the span of the old ones, as the paper's
subspace regularizer expects them, but not only.
"""

from dataclasses import dataclass, replace

import numpy as np

from subspan.arrays import FloatArray
from subspan.learners.parts.within_space import share_of_chance

LEAST = 1e-3  # of the noise: how far base means lie apart where no more than noise is seen


@dataclass(frozen=True)
class Prior:
    """What is expected of a class's mean before its examples are seen, in d dimensions, r of which have coordinates."""

    middle: FloatArray  # (*batch, r)
    level: float  # variance along each dimension, of a class that is like none in particular
    directions: FloatArray  # (k, r): principal ones of the base means, at length one
    along: FloatArray  # (k,): variance of the base means along them
    noise: float  # variance of an example about its mean, along each dimension
    dimensions: int
    share: float  # of the base means' own covariance in that of a novel mean

    def about(self, means: FloatArray, counts: FloatArray) -> "Prior":
        """The prior about the middle of all classes by their certainty: means (..., C, r), examples (..., C).

        About the middle of the base classes alone it would favour new ones, which have no part in it.
        """
        certain = 1 / (self.level + self.noise / np.broadcast_to(counts, means.shape[:-1]))[..., None, :]
        return replace(self, middle=(certain.astype(means.dtype) @ means)[..., 0, :] / certain.sum(-1))


def prior_of(means: FloatArray, counts: FloatArray, dimensions: int, noise: float | None, span: float) -> Prior:
    """The prior from base means (B, r) of so many examples each (B,).

    noise : of one example; None is half of all there is. span : share of the base means' own covariance, were all of it
    certain. Of few or noisy means it is not: what is noise counts for less, and so does what chance would show.
    """
    middle, directions, along = _principal(means)
    known = max(len(means) - 1, 1)
    spread = float(along.sum()) / known / dimensions
    if noise is None:
        noise, span = spread / 2 or 1.0, 0.0
    level = max(spread - noise * float(np.mean(1 / counts)), LEAST * noise)
    real = level / spread if spread > 0 else 0.0
    share = span * min(real, 1.0) ** 2 * (1 - share_of_chance(along, known, dimensions)) ** 0.5
    return Prior(middle, level, directions, real * along / known, noise, dimensions, share)


def _principal(means: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The mean of rows (B, r); orthonormal directions (k, r) and values (k,), whose weighted sum is their scatter."""
    middle = means.mean(0, dtype=np.float64)
    off = means - middle
    if len(means) <= means.shape[1]:
        _, lengths, directions = np.linalg.svd(off, full_matrices=False)
        return middle, directions, lengths**2
    values, vectors = np.linalg.eigh(off.T @ off)
    return middle, vectors.T, np.maximum(values, 0)


def posterior(means: FloatArray, counts: FloatArray, prior: Prior, share: float) -> tuple[FloatArray, FloatArray]:
    """Expected means (..., K, r), and their variance (..., K), the mean over dimensions.

    means : of the examples of each class (..., K, r). counts : how many they are (..., K). share : of the base means'
    own covariance in the prior's.
    """
    noise = (prior.noise / np.broadcast_to(counts, means.shape[:-1]))[..., None]  # of an observed mean
    plain = (1 - share) * prior.level + noise  # (..., K, 1): variance of an observed mean outside of all directions
    kept = 1 - noise / plain
    middle = prior.middle[..., None, :].astype(means.dtype)
    off = means - middle
    expected, left = middle + kept.astype(means.dtype) * off, (noise * kept)[..., 0]
    if share:
        less = share * prior.along / (plain * (plain + share * prior.along))  # (..., K, k): less precise inside by this
        expected += noise.astype(means.dtype) * (((off @ prior.directions.T) * less) @ prior.directions)
        left = left + noise[..., 0] ** 2 * less.sum(-1) / prior.dimensions
    return expected, left
