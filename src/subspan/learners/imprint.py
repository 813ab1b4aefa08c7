"""Imprinting (Qi, Brown, Lowe 2018): normalised support means beside the learned, normalised base rows."""

from dataclasses import dataclass

from subspan.arrays import Array
from subspan.engine.contract import Base
from subspan.learners.parts.cosine import CosineLearner
from subspan.learners.parts.vectors import unit
from subspan.learners.registry import register


@register
@dataclass(frozen=True)
class Imprint(CosineLearner):
    """Imprinted weights in the form of Ren et al.'s re-run: raw features are averaged, then normalised once.

    Predictions are the released code's on the same features.
    """

    name = "imprint"
    summary = "normalised support mean beside the learned base rows; no training"

    def base_rows(self, base: Base) -> Array:
        return unit(base.rows)

    def row_of_mean(self, base: Base, mean: Array) -> Array:
        return unit(mean)
