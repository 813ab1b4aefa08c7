"""Offset: class means less a share of the mean of the base training features."""

from dataclasses import dataclass

from torch import Tensor

from subspan.engine.contract import Base
from subspan.learners.parts.cosine import CosineLearner, unit
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class Offset(CosineLearner):
    """A new row is its normalised, partly centred class mean, beside normalised base rows."""

    name = "offset"
    summary = "normalised support mean, partly centred; no training"
    needs = frozenset({"means"})
    share: float = option(0.5, "share of the mean base feature that is taken off")

    def base_rows(self, base: Base) -> Tensor:
        return unit(base.rows)

    def row_of_mean(self, base: Base, mean: Tensor) -> Tensor:
        return unit(mean - self.share * base.center)
