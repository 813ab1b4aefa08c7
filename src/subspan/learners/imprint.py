"""Imprinting (Qi, Brown, Lowe 2018): normalised support means beside the learned, normalised base rows."""

from dataclasses import dataclass

from torch import Tensor

from subspan.engine.contract import Base
from subspan.learners.parts.cosine import CosineLearner, unit
from subspan.learners.registry import register


@register
@dataclass(frozen=True)
class Imprint(CosineLearner):
    """Imprinted weights in the form of Ren et al.'s re-run: raw features are averaged, then normalised once."""

    name = "imprint"
    summary = "normalised support mean beside the learned base rows; no training"

    def base_rows(self, base: Base) -> Tensor:
        return unit(base.rows)

    def row_of_mean(self, base: Base, mean: Tensor) -> Tensor:
        return unit(mean)
