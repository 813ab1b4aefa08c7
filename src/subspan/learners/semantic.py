"""The semantic subspace regularizer (section 4.4): new rows are pulled to a mixture of base rows chosen by language."""

from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.contract import Base
from subspan.learners.parts.regularizer import LanguageRegularizer
from subspan.learners.registry import register
from subspan.values import check_options, option


@register
@dataclass(frozen=True)
class Semantic(LanguageRegularizer):
    """Semantic subspace regularization, Eq. 7 and 8: l_c = sum_j softmax_j(e_j . e_c / tau) eta_j over base j."""

    name = "semantic"
    summary = "pull new rows to a mixture of base rows by the similarity of class embeddings"
    gamma: float = option(0.2, "strength of the pull on new rows (R_new)")
    tau: float = option(3.0, "temperature of the softmax over base classes")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, positive=("tau",))

    def targets(self, base: Base, rows: Tensor, embeddings: Tensor) -> Tensor:
        return torch.softmax(embeddings @ base.embeddings.mT / self.tau, dim=-1) @ base.rows
