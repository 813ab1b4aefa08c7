"""Rows drawn to learned targets with a learned strength per dimension, and the way their gradients flow back.

The inner problem of Attention Attractor Networks is the core's objective: K novel rows theta learn their support in a
softmax over all classes, known ones stand still, and

    E(theta) = mean CE + (w / 2) ||theta||^2 + (1 / K) sum_k sum_d gamma_d (theta_kd - u_kd)^2

A strength per dimension is a change of units. With s_d = gamma_d / K + w / 2, rows times sqrt(s), features divided by
it and the target u gamma / (K s), decay and pull are one squared penalty of strength 1, and every logit is the same. So
the core's solver finds the minimum, exactly and for a whole batch at once.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from subspan.engine.objective import Problem, RowGroup, mean_weights, standing_still
from subspan.engine.optimum import conjugate_gradients, optimum


def attracted_rows(
    support: Tensor,
    labels: Tensor,
    known: Tensor,
    targets: Tensor,
    strength: Tensor,
    *,
    weight_decay: float = 1e-5,
    damping: float = 0.0,
    tolerance: float = 1e-8,
) -> tuple[Tensor, Tensor]:
    """The rows (E, K, d) at the minimum, differentiable by targets and strength, and the solver's steps (E,).

    Parameters
    ----------
    support : (E, n, d); labels : (E, n), counted from 0 among the K novel classes.
    known : rows (E or 1, C, d) that stay where they are.
    targets : u (E, K, d). strength : gamma (d,), positive.
    damping : epsilon; gradients are those of (H + epsilon I) in place of the Hessian H of E.
    tolerance : of the minimum and of the gradient's linear system, relative.
    """
    return _Minimum.apply(targets, strength, support, labels, known, weight_decay, damping, tolerance)  # type: ignore[return-value]


class _Minimum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, targets: Tensor, strength: Tensor, *fixed: Any) -> tuple[Tensor, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        support, labels, known, weight_decay, damping, tolerance = fixed
        held = strength / targets.shape[-2]
        hold = held + weight_decay / 2
        units = hold.sqrt()
        reference = targets * held / hold * units
        problem = Problem(
            support / units,
            labels,
            mean_weights(support.shape[-2], 0, support).expand(support.shape[:-1]),
            [RowGroup(reference, reference, "squared", 1.0)],
            still=standing_still(support, known),
        )
        solution = optimum(problem, tolerance=tolerance)
        rows = solution.rows / units
        ctx.save_for_backward(rows, targets, strength, support, known)
        ctx.numbers = weight_decay, damping, tolerance
        ctx.mark_non_differentiable(solution.steps)
        return rows, solution.steps

    @staticmethod
    def backward(ctx: Any, by_rows: Tensor, _by_steps: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Implicit differentiation: with g = (H + epsilon I)^-1 dL/dtheta, dL/dphi = -g . d^2 E / dtheta dphi."""
        rows, targets, strength, support, known = ctx.saved_tensors
        weight_decay, damping, tolerance = ctx.numbers
        product = hessian(rows, support, known, strength, weight_decay)
        tolerance = max(tolerance, 10 * torch.finfo(by_rows.dtype).eps)
        g = conjugate_gradients(lambda v: product(v) + damping * v, by_rows, tolerance)
        pull = 2 / rows.shape[-2]
        by_targets = pull * strength * g
        by_strength = -(pull * g * (rows - targets)).sum((0, 1))
        return by_targets, by_strength, None, None, None, None, None, None


def hessian(
    rows: Tensor, support: Tensor, known: Tensor, strength: Tensor, weight_decay: float
) -> Callable[[Tensor], Tensor]:
    """The product of the Hessian of E at rows (E, K, d) with directions (E, K, d)."""
    logits = torch.cat([support @ known.expand(len(support), -1, -1).mT, support @ rows.mT], dim=-1)
    probability = torch.softmax(logits, dim=-1)[..., known.shape[-2] :]  # (E, n, K)
    diagonal = weight_decay + 2 * strength / rows.shape[-2]

    def product(direction: Tensor) -> Tensor:
        weighted = probability * (support @ direction.mT)
        by_logits = (weighted - probability * weighted.sum(-1, keepdim=True)) / support.shape[-2]
        return by_logits.mT @ support + diagonal * direction

    return product
