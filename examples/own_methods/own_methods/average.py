"""Average: new rows are pulled to the mean of the base rows."""

from dataclasses import dataclass

from torch import Tensor

from subspan.engine.contract import Base
from subspan.engine.objective import RowGroup
from subspan.learners.parts.regularizer import Regularizer
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class Average(Regularizer):
    """R_new is the sum of the squared distances to the mean base row."""

    name = "average"
    summary = "pull new rows to the mean of the base rows"
    gamma: float = option(0.5, "strength of the pull on novel rows (R_new)")

    def novel_group(self, base: Base, start: Tensor, embeddings: Tensor | None) -> RowGroup:
        return RowGroup(start, base.rows.mean(0).expand_as(start), "squared", self.gamma)
