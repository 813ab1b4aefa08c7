"""ALICE's balanced means: base prototypes are made of as few examples as novel ones."""

from dataclasses import dataclass

import numpy as np

from subspan.arrays import FloatArray
from subspan.engine.contract import Base
from subspan.learners.parts.base_samples import base_samples
from subspan.learners.parts.cosine import CosineLearner
from subspan.learners.parts.system import System
from subspan.learners.parts.vectors import unit
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class Alice(System, CosineLearner):
    """Cosine to class means, base means from a few typical examples each: ALICE's "balanced testing".

    A base class is the mean of the ``images`` training features nearest, by cosine, to its mean; a novel class is the
    mean of its support. So both are made of equally few examples. Scores are cosines [C].

    Reference: Peng, Zhao, Wang, Li, Lovell, Few-Shot Class-Incremental Learning from an Open-Set Perspective, ECCV
    2022. Setting: multi-session, with a base session of its own (CosFace, class fusion, two views), which is not part
    of this.

    Departures [ours]: the feature file has no base training features, so ``samples`` draws from N(class mean, pooled
    covariance) stand for the class's images. We take exactly the nearest; the released scan replaces the first of five
    slots that is farther, so it finds them only roughly [C].
    """

    name = "alice"
    summary = "cosine to means, base means of as few examples as novel ones; no training"
    reference = "Peng et al., ECCV 2022"
    marks = "C; base examples drawn from statistics: ours"
    needs = frozenset({"means", "covariance"})
    images: int = option(5, "examples in a base mean, those nearest to the class mean")
    samples: int = option(500, "examples drawn for every base class, of which these are the nearest")
    seed: int = option(0, "seed of the draws")

    def __post_init__(self) -> None:
        if not 1 <= self.images <= self.samples:
            raise ValueError(f"images must lie between 1 and samples ({self.samples}); got {self.images}")

    def base_rows(self, base: Base) -> FloatArray:
        drawn = base_samples(base.means, base.covariance, self.samples, self.seed)
        return unit(nearest_mean(drawn, base.means, self.images))


def nearest_mean(features: FloatArray, means: FloatArray, count: int) -> FloatArray:
    """Mean (C, d) of those ``count`` features (C, n, d) of each class with the largest cosine to its mean (C, d).

    >>> nearest_mean(np.array([[[1.0, 0.0], [3.0, 0.1], [0.0, 1.0]]]), np.array([[2.0, 0.0]]), 2)
    array([[2.  , 0.05]])
    """
    cosines = (unit(features) @ unit(means)[..., None])[..., 0]  # (C, n)
    chosen = np.argsort(-cosines, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(features, chosen[..., None], axis=-2).mean(-2)
