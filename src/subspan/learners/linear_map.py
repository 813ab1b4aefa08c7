"""Linear mapping (section 4.4): new rows are pulled to where a map from embeddings to base rows sends their class."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from subspan.arrays import append_one
from subspan.engine.contract import Base
from subspan.learners.parts.regularizer import LanguageRegularizer
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class LinearMap(LanguageRegularizer):
    """Linear mapping, Eq. 9 and 10: an affine map L fitted once from base embeddings to base rows.

    Both fits minimise the mean squared error over all base weights plus ridge/2 times the map's squared norm, its bias
    included: ``ridge`` solves it, ``gradient`` takes the paper's steps towards it.
    """

    name = "linear_map"
    summary = "pull new rows to where a linear map of their class embedding points"
    gamma: float = option(0.1, "strength of the pull on new rows (R_new)")
    fit: Literal["ridge", "gradient"] = option("ridge", "closed form, or the paper's gradient descent")
    ridge: float = option(5e-4, "the map's weight decay")
    fit_steps: int = option(1000, "steps of the gradient descent")
    fit_rate: float = option(1.0, "learning rate of the gradient descent")

    def targets(self, base: Base, rows: Tensor, embeddings: Tensor) -> Tensor:
        inputs = append_one(base.embeddings.double())
        fit = fit_ridge if self.fit == "ridge" else self._fit_gradient
        return (append_one(embeddings.double()) @ fit(inputs, base.rows.double(), self.ridge)).to(base.rows)

    def _fit_gradient(self, inputs: Tensor, rows: Tensor, ridge: float) -> Tensor:
        """The paper's fit: gradient descent from a linear layer's usual uniform start (seed 0)."""
        generator = torch.Generator().manual_seed(0)
        shape = (inputs.shape[1], rows.shape[1])
        bound = 1 / (inputs.shape[1] - 1) ** 0.5
        weight = ((torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1) * bound).to(inputs)
        for _ in range(self.fit_steps):
            gradient = inputs.mT @ (inputs @ weight - rows) * (2 / rows.numel())
            weight = weight - self.fit_rate * (gradient + ridge * weight)
        return weight


def fit_ridge(inputs: Tensor, rows: Tensor, ridge: float) -> Tensor:
    """The map (e, d) that minimises mean((inputs map - rows)^2) + ridge/2 ||map||^2; inputs (C, e), rows (C, d).

    >>> fit_ridge(torch.eye(2, dtype=torch.float64), torch.tensor([[4.0], [2.0]], dtype=torch.float64), 0.0)
    tensor([[4.],
            [2.]], dtype=torch.float64)
    """
    if ridge == 0:
        return torch.linalg.pinv(inputs) @ rows
    # (X^T X + a I)^-1 X^T Y = X^T (X X^T + a I)^-1 Y: the smaller system of the two, C equations.
    kernel = inputs @ inputs.mT + ridge * rows.numel() / 2 * torch.eye(len(inputs)).to(inputs)
    return inputs.mT @ torch.linalg.solve(kernel, rows)
