"""Fine-tuning: new rows are learned freely; only R_old and weight decay hold anything."""

from dataclasses import dataclass

from torch import Tensor

from subspan.engine.contract import Base
from subspan.engine.objective import RowGroup
from subspan.learners.parts.regularizer import Regularizer
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class Finetune(Regularizer):
    """Fine-tuning of section 4.2: R_new is none, weight decay ten times the regularizers'."""

    name = "finetune"
    summary = "fine-tune all rows, R_old holds the old ones"
    weight_decay: float = option(5e-3, "weight decay on all rows")

    def novel_group(self, base: Base, start: Tensor, embeddings: Tensor | None) -> RowGroup:
        return RowGroup(start)
