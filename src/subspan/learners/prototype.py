"""Prototypes: cosine to class means on centred features, the training-free baseline that every table needs."""

from dataclasses import dataclass
from typing import Literal

from subspan.arrays import Array
from subspan.engine.contract import Base
from subspan.learners.parts.cosine import CosineLearner
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class Prototype(CosineLearner):
    """Nearest centred mean by cosine.

    Features are centred by the mean of the base *training* features, never by anything of the test set. Base classes
    keep their learned rows, normalised (``base=rows``), or become means like the novel ones (``base=means``).
    """

    name = "prototype"
    summary = "cosine to centred support means; no training"
    base: Literal["rows", "means"] = option("rows", "base classes by their learned rows or by their class means")
    centred: bool = option(True, "centre features by the mean of the base training features")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"means"} if self.centred or self.base == "means" else ())

    def center(self, base: Base) -> Array | float:
        return base.center if self.centred else 0.0

    def base_rows(self, base: Base) -> Array:
        return super().base_rows(base) if self.base == "rows" else self.row_of_mean(base, base.means)
