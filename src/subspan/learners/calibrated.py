"""Calibrated prototypes: whitened, drawn towards similar base classes, balanced against them; no training."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from subspan.arrays import Array
from subspan.engine.contract import Base, State
from subspan.learners.parts.cosine import CosineLearner
from subspan.learners.parts.vectors import drawn_towards, unit
from subspan.learners.registry import register
from subspan.values import check_options, option


@register
@dataclass(frozen=True)
class Calibrated(CosineLearner):
    """Cosine to class means where the features' own noise is white, with three corrections.

    With c the mean and S the within-class covariance of the base *training* features, S + shrinkage * s I = L L^T (s
    the mean eigenvalue of S) and z(x) = L^-1 (x - c):

    - a base row is a blend of its class mean z(mu) and of its learned row, L^T eta in these coordinates;
    - a novel row z(m), the mean of a handful of features, is drawn towards the base rows it resembles: the target of
      the semantic regularizer (Eq. 7) with visual in place of word similarity;
    - novel classes get an offset: their rows, made of few examples, meet their own queries at smaller cosines.

    The defaults were chosen on the development split (split 0), which no table reports.
    """

    name = "calibrated"
    summary = "cosine to whitened support means, drawn towards similar base classes; no training"
    whiten: bool = option(True, "measure in units of the within-class covariance; False: plain cosines")
    shrinkage: float = option(0.1, "identity added to the covariance, in units of its mean eigenvalue")
    learned: float = option(0.4, "share of the learned rows in the base rows; the rest are class means")
    pull: float = option(0.2, "share of similar base rows in a novel row")
    sharpness: float = option(2.0, "factor on the cosines whose softmax says how similar base rows are")
    offset: float = option(0.06, "added to the cosines of novel classes")

    def __post_init__(self) -> None:
        check_options(self, shares=("learned", "pull"), positive=("shrinkage",))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"means", "covariance"} if self.whiten else {"means"})

    def represent(self, base: Base, features: Array) -> Array:
        centred = features - base.center
        return unit(centred @ self._roots(base)[1].mT if self.whiten else centred)

    def base_rows(self, base: Base) -> Array:
        learned = base.rows @ self._roots(base)[0] if self.whiten else base.rows
        return unit(self.learned * unit(learned) + (1 - self.learned) * self.represent(base, base.means))

    def row_of_mean(self, base: Base, mean: Array) -> Array:
        return drawn_towards(self.represent(base, mean), self.base_rows(base), self.pull, self.sharpness)

    def scores(self, state: State, queries: Array) -> Array:
        scores = super().scores(state, queries)
        scores[..., state.base_count :] += self.scale * self.offset
        return scores

    def _roots(self, base: Base) -> tuple[Array, Array]:
        """L (d, d) and its inverse: one factorisation for all queries of a base session."""
        return base.once(("roots", self.shrinkage), lambda: self._factors(base.covariance))

    def _factors(self, covariance: Array) -> tuple[Array, Array]:
        identity = np.eye(len(covariance), dtype=covariance.dtype)
        scale = covariance.diagonal().mean()
        root = np.linalg.cholesky(covariance + identity * (self.shrinkage * scale if scale > 0 else 1))
        return root, solve_triangular(root, identity, lower=True)
