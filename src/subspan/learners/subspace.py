"""The subspace regularizer (section 4.3): new rows are pulled to the span of the base rows, anywhere in it."""

import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from subspan.engine.contract import Base
from subspan.engine.objective import RowGroup
from subspan.learners.parts.regularizer import Regularizer
from subspan.learners.registry import register
from subspan.values import option

TINY_SPAN = 10  # directions; below this a span holds a new class too tightly


class DegenerateSpanWarning(UserWarning):
    """The span of the base rows is too large or too small for the subspace regularizer to be of use."""


@register
@dataclass(frozen=True)
class Subspace(Regularizer):
    """Subspace regularization, Eq. 5 and 6, with the projector from a truncated SVD.

    Softmax with weight decay drives the sum of the base rows to zero, so their numerical rank is one less than their
    number. A plain QR (``basis=qr``, the paper's) keeps that last direction, which training never shaped: with it
    values, gradients, steps and the predictions of all eight sessions are the released code's.
    """

    name = "subspace"
    summary = "pull new rows to the span of the base rows"
    moving_targets = True
    gamma: float = option(1.0, "strength of the pull on new rows (R_new)")
    basis: Literal["svd", "qr"] = option("svd", "truncated SVD, or the paper's QR")
    rank_tolerance: float = option(0.01, "singular values below this times the largest are left out (svd)")

    def novel_group(self, base: Base, start: Tensor, embeddings: Tensor | None) -> RowGroup:
        basis = self._basis(base)
        warn_if_degenerate(basis, len(base.rows))
        return RowGroup(start, None, "squared", self.gamma, basis)

    def targets(self, base: Base, rows: Tensor, embeddings: Tensor | None) -> Tensor:
        basis = self._basis(base)
        return (rows @ basis) @ basis.mT

    def _basis(self, base: Base) -> Tensor:
        return _span_basis_once(base.rows, self.basis, self.rank_tolerance)


def span_basis(rows: Tensor, kind: Literal["svd", "qr"] = "svd", tolerance: float = 0.01) -> Tensor:
    """Orthonormal basis (d, rank) of the span of rows (C, d).

    >>> span_basis(torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.0, 0.0]])).abs()
    tensor([[1.],
            [0.],
            [0.]])
    """
    if kind == "qr":
        return torch.linalg.qr(rows.mT.double())[0].to(rows)
    directions, singular, _ = torch.linalg.svd(rows.mT.double(), full_matrices=False)
    return directions[:, singular > tolerance * singular[0]].to(rows)


# By the tensor itself, which nobody changes: one decomposition for all sessions and cells of a base session.
_span_basis_once = lru_cache(maxsize=2)(span_basis)


def warn_if_degenerate(basis: Tensor, base_count: int) -> None:
    """Warn where the span is the whole space (the penalty does nothing) or tiny (it holds new classes too tightly)."""
    d, rank = basis.shape
    if rank >= d:
        warnings.warn(
            f"the {base_count} base rows span all {d} feature dimensions, so the subspace penalty does nothing; "
            "use method 'semantic', 'linear_map' or 'prototype' instead",
            DegenerateSpanWarning,
            stacklevel=2,
        )
    elif rank < TINY_SPAN:
        warnings.warn(
            f"the {base_count} base rows span only {rank} of {d} feature dimensions, which holds new classes too "
            "tightly; lower gamma or use method 'finetune' or 'prototype' instead",
            DegenerateSpanWarning,
            stacklevel=2,
        )
