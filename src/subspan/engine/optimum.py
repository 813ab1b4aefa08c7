"""The exact minimum of a session's objective: Newton's method with conjugate gradients in span coordinates, batched.

The objective is convex and, with weight decay, has one minimum: no learning rate, no random start, no stop rule. Its
only corner is the zero change of a ``norm`` penalty, a usual place for the minimum to lie. So a ``norm`` part is either
*held* at exactly zero change or *free*, where the objective is smooth. A held part is let go when the gradient there is
longer than its strength; a free one is held when zeroing its change lowers the objective. Both only ever lower it.
Optimality is judged by the minimal-norm subgradient in weight space.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.objective import Problem, Solution
from subspan.engine.sgd import cross_entropy_and_gradient, pull_strength
from subspan.engine.span import Coordinates, Span, to_span

STALLED = 5  # Newton steps in a row without progress end a problem


def optimum(problem: Problem, *, tolerance: float = 1e-8, max_newton: int = 200, max_conjugate: int = 2000) -> Solution:
    """Find the minimum of a session's objective.

    Parameters
    ----------
    problem : the session, single (n, d) or batched (E, n, d); float64 for the full accuracy.
    tolerance : the minimal-norm subgradient is brought below this times its length at the start, as far as the
        arithmetic of the features' dtype allows.
    """
    span = to_span(problem, orthonormal=True)
    _refuse_without_minimum(span)
    result = _Newton(span, tolerance, max_conjugate).run(max_newton)
    rows = span.rows(result.x)
    loss, steps = result.value, result.steps
    if problem.features.ndim == 2:
        return Solution(rows[0], steps[0], loss[0])
    return Solution(rows, steps, loss)


def subgradient_norm(problem: Problem) -> Tensor:
    """Length (*batch,) of the minimal-norm subgradient of the objective, in weight space, at the groups' start."""
    span = to_span(problem, orthonormal=True)
    point = _evaluate(span, span.start())
    norm = _subgradient(span, point).sum(-1).sqrt()
    return norm[0] if problem.features.ndim == 2 else norm


@dataclass
class _Point:
    """A point with all that a Newton step needs of it."""

    x: Coordinates
    scalar: list[Tensor]
    duals: list[Tensor]
    logits: Tensor  # (E, C, n)
    probability: Tensor  # (E, C, n)
    change: Tensor  # squared norms by part (E, parts)
    gradient: Coordinates  # of the smooth part; a `norm` penalty counts as smooth where its change is not zero
    value: Tensor  # (E,)


def _evaluate(span: Span, x: Coordinates) -> _Point:
    scalar, duals = span.duals(x)
    change = span.inner(x, x, scalar, duals).clamp_min(0)
    logits = span.logits(duals)
    cross_entropy, by_logits = cross_entropy_and_gradient(span, logits)
    hold = span.weight_decay[:, None] + pull_strength(span, change.sqrt())
    frames = [
        component.pull(by_logits[:, slice(*component.rows)])
        + component.spread(hold[:, slice(*component.parts)]) * b
        + span.weight_decay[:, None, None] * component.reference_in_frame
        for component, b in zip(span.components, x.frame, strict=True)
    ]
    # A reference inside the span has no share outside it: inner products do not see its number u, which stays at zero.
    beyond = torch.where(span.reference_reference > 0, hold * x.reference + span.weight_decay[:, None], 0)
    gradient = Coordinates(hold * x.delta, beyond, frames)
    value = cross_entropy + _penalties(span, change, span.reference_inner(x)).sum(-1)
    return _Point(x, scalar, duals, logits, torch.softmax(logits, dim=1), change, gradient, value)


def _penalties(span: Span, change: Tensor, with_reference: Tensor) -> Tensor:
    """Weight decay and penalties by part (E, parts)."""
    squares = span.reference_square + 2 * with_reference + change
    held = torch.where(span.is_norm, change.clamp_min(0).sqrt(), change) * span.strength
    return span.weight_decay[:, None] / 2 * squares + held


def _subgradient(span: Span, point: _Point) -> Tensor:
    """Squared length of the minimal-norm subgradient by part (E, parts)."""
    squares = span.inner(point.gradient, point.gradient, *span.duals(point.gradient)).clamp_min(0)
    at_corner = span.is_norm & (point.change == 0)
    return torch.where(at_corner, (squares.sqrt() - span.strength).clamp_min(0) ** 2, squares)


class _Newton:
    """The state of a batched Newton iteration."""

    def __init__(self, span: Span, tolerance: float, max_conjugate: int) -> None:
        self.span = span
        self.max_conjugate = max_conjugate
        start = _evaluate(span, span.start())
        self.goal = tolerance * _subgradient(span, start).sum(-1).sqrt()
        at_reference = span.start().map(torch.zeros_like)  # s = 0 at the minimum, whatever the start was
        self.x, self.held = at_reference, span.is_norm & (span.strength > 0)
        self.steps = torch.zeros_like(span.labels[:, 0])
        self.value = start.value

    def run(self, max_newton: int) -> "_Newton":
        span = self.span
        stalled = torch.zeros_like(self.steps)
        least_value, least_length = (torch.full_like(self.value, torch.inf) for _ in range(2))
        for _ in range(max_newton):
            point = _evaluate(span, self.x)
            point = self._hold(point)
            shortfall = _subgradient(span, point)
            length = shortfall.sum(-1).sqrt()
            # Where neither the value nor the subgradient gets any smaller, rounding is all that is left.
            better = (point.value < least_value - _rounding(point.value)) | (length < 0.9 * least_length)
            stalled = torch.where(better, torch.zeros_like(stalled), stalled + 1)
            least_value, least_length = torch.minimum(least_value, point.value), torch.minimum(least_length, length)
            active = (length > self.goal) & (stalled < STALLED)
            self.x, self.value = point.x, point.value
            if not bool(active.any()):
                break
            self.steps += active
            free, held = (torch.where(where, shortfall, 0) for where in (~self.held, self.held))
            # Once the free parts are better than the held ones, those that want to leave do so, by themselves.
            leaving = self.held & (held > 0) & (held.sum(-1) > free.sum(-1))[:, None] & active[:, None]
            self.held &= ~leaving
            direction = self._direction(point, length, active & ~leaving.any(-1))
            if bool(leaving.any()):
                direction.add_(self._departure(point, leaving), torch.ones_like(length))
            self._line_search(point, direction, active)
        return self

    def _hold(self, point: _Point) -> _Point:
        """Hold the free ``norm`` parts whose zero change has a lower objective."""
        span = self.span
        for part in torch.nonzero(span.is_norm)[:, 0].tolist():
            where = torch.zeros_like(self.held)
            where[:, part] = ~self.held[:, part] & (point.change[:, part] > 0)
            if not bool(where.any()):
                continue
            trial = _evaluate(span, self._masked(point.x, ~where))
            where &= (trial.value <= point.value)[:, None]
            if bool(where.any()):
                self.held |= where
                point = _evaluate(span, self._masked(point.x, ~where))
        return point

    def _masked(self, x: Coordinates, keep: Tensor) -> Coordinates:
        """x with the parts outside the mask (E, parts) set to zero."""
        return self._scaled(x, keep.to(x.delta))

    def _scaled(self, x: Coordinates, factor: Tensor) -> Coordinates:
        """x times one factor per part (E, parts)."""
        frames = [c.spread(factor[:, slice(*c.parts)]) * b for c, b in zip(self.span.components, x.frame, strict=True)]
        return Coordinates(x.delta * factor, x.reference * factor, frames)

    def _curvature(self, point: _Point, v: Coordinates, scalar: list[Tensor], duals: list[Tensor]) -> Coordinates:
        """The Hessian times v, on the free parts."""
        span = self.span
        logits = span.logits(duals, of_change=True)
        weighted = point.probability * logits
        by_logits = (weighted - point.probability * weighted.sum(1, keepdim=True)) * span.sample_weight[:, None]
        pull = pull_strength(span, point.change.sqrt())
        hold = span.weight_decay[:, None] + pull
        # The radial direction of a norm has no curvature.
        along = span.inner(point.x, v, scalar, duals) / point.change.clamp_min(torch.finfo(pull.dtype).tiny)
        radial = torch.where(span.is_norm & (point.change > 0), pull * along, 0)
        frames = []
        for i, c in enumerate(span.components):
            parts = slice(*c.parts)
            frame = c.pull(by_logits[:, slice(*c.rows)]) + c.spread(hold[:, parts]) * v.frame[i]
            frames.append(frame - c.spread(radial[:, parts]) * point.x.frame[i])
        delta, reference = (
            hold * a - radial * b for a, b in ((v.delta, point.x.delta), (v.reference, point.x.reference))
        )
        return self._masked(Coordinates(delta, reference, frames), ~self.held)

    def _departure(self, point: _Point, leaving: Tensor) -> Coordinates:
        """From the corner along the minimal-norm subgradient, as far as the curvature there suggests."""
        span = self.span
        squares = span.inner(point.gradient, point.gradient, *span.duals(point.gradient)).clamp_min(0)
        shrink = 1 - span.strength / squares.sqrt().clamp_min(torch.finfo(squares.dtype).tiny)
        step = self._scaled(point.gradient, torch.where(leaving, -shrink, 0))
        scalar, duals = span.duals(step)
        curvature = span.inner(self._curvature(point, step, scalar, duals), step, scalar, duals).sum(-1)
        length = span.inner(step, step, scalar, duals).sum(-1)
        scale = torch.where(curvature > 0, length / curvature.clamp_min(torch.finfo(length.dtype).tiny), 1.0)
        return self._scaled(step, scale[:, None].expand_as(squares))

    def _direction(self, point: _Point, length: Tensor, active: Tensor) -> Coordinates:
        """Solve H p = -g on the free parts by conjugate gradients in the weight-space inner product."""
        span = self.span
        residual = self._scaled(point.gradient, -(~self.held & active[:, None]).to(length))
        p = residual.map(torch.clone)
        solution = residual.map(torch.zeros_like)
        r_scalar, r_duals = span.duals(residual)
        p_scalar, p_duals = [t.clone() for t in r_scalar], [t.clone() for t in r_duals]
        rr = span.inner(residual, residual, r_scalar, r_duals).sum(-1)
        # Eisenstat and Walker: solve as exactly as the remaining error deserves.
        relative = (length / self.goal.clamp_min(torch.finfo(length.dtype).tiny)).clamp_min(1)
        forcing = torch.minimum(torch.full_like(length, 0.1), (1 / relative.sqrt()).clamp_min(1e-10))
        goal = forcing**2 * rr
        for _ in range(self.max_conjugate):
            running = rr > goal
            if not bool(running.any()):
                break
            hp = self._curvature(point, p, p_scalar, p_duals)
            php = span.inner(hp, p, p_scalar, p_duals).sum(-1)
            running &= php > 0
            step = torch.where(running, rr / php.clamp_min(torch.finfo(php.dtype).tiny), torch.zeros_like(rr))
            solution.add_(p, step)
            residual.add_(hp, -step)
            r_scalar, r_duals = span.duals(residual)
            new = span.inner(residual, residual, r_scalar, r_duals).sum(-1).clamp_min(0)
            momentum = torch.where(running, new / rr.clamp_min(torch.finfo(rr.dtype).tiny), torch.zeros_like(rr))
            rr = torch.where(running, new, torch.zeros_like(rr))
            p = residual.map(torch.clone).add_(p, momentum)
            column = momentum[:, None, None]
            p_scalar = [r + column * old for r, old in zip(r_scalar, p_scalar, strict=True)]
            p_duals = [r + column * old for r, old in zip(r_duals, p_duals, strict=True)]
        return solution

    def _line_search(self, point: _Point, direction: Coordinates, active: Tensor) -> None:
        """Move along the direction as far as the objective falls."""
        span = self.span
        scalar, duals = span.duals(direction)
        step_logits = span.logits(duals, of_change=True)
        cross = span.inner(point.x, direction, scalar, duals)
        square = span.inner(direction, direction, scalar, duals)
        slope = span.inner(point.gradient, direction, scalar, duals)
        corner = span.is_norm & (point.change == 0)
        slope = (slope + torch.where(corner, span.strength * square.clamp_min(0).sqrt(), 0)).sum(-1)
        base, along = span.reference_inner(point.x), span.reference_inner(direction)
        scale = torch.where(active, torch.ones_like(slope), torch.zeros_like(slope))
        waiting = active.clone()
        rounding = _rounding(point.value)
        labels, weight = span.labels[:, None], span.sample_weight
        for _ in range(60):
            logits = point.logits + scale[:, None, None] * step_logits
            picked = logits.gather(1, labels)[:, 0] - torch.logsumexp(logits, dim=1)
            t = scale[:, None]
            change = (point.change + 2 * t * cross + t**2 * square).clamp_min(0)
            value = -(picked * weight).sum(-1) + _penalties(span, change, base + t * along).sum(-1)
            waiting &= ~(value <= point.value + 1e-4 * scale * slope + rounding)
            if not bool(waiting.any()):
                break
            scale = torch.where(waiting, scale / 2, scale)
        scale = torch.where(waiting, torch.zeros_like(scale), scale)
        self.x = point.x.map(torch.clone).add_(direction, scale)


def _rounding(value: Tensor) -> Tensor:
    """How much of a difference of objectives may be rounding."""
    return 8 * torch.finfo(value.dtype).eps * value.abs()


def _refuse_without_minimum(span: Span) -> None:
    """Without weight decay, rows that nothing holds run away on separable data: there is no minimum to find."""
    loose_parts = (span.strength == 0) & (span.weight_decay[:, None] == 0)
    for problem in torch.nonzero(loose_parts.any(-1))[:, 0].tolist():
        if _separable(span, problem, loose_parts[problem]):
            raise ValueError(
                "with weight decay 0 and separable data no minimum exists; set weight_decay above 0 or use solver='sgd'"
            )


def _separable(span: Span, problem: int, loose_parts: Tensor) -> bool:
    """Whether some direction of the loose rows lowers the cross-entropy for ever: a linear programme in its logits.

    A direction D of the loose rows runs away when no example's margin shrinks and one grows: for every example i and
    class c, (D_y - D_c) f_i >= 0, not all zero.
    """
    from scipy.optimize import linprog  # here, where it is seldom needed: it takes long to import

    component = next(c for c in reversed(span.components) if bool(loose_parts[slice(*c.parts)].any()))
    loose = loose_parts[slice(*component.parts)][component.part_of_row]
    weight = span.sample_weight[problem] > 0
    features = component.features[problem][weight].double().cpu()
    labels = span.labels[problem][weight].cpu()
    classes = (component.rows[0] + torch.nonzero(loose)[:, 0]).cpu()
    left, singular, _ = torch.linalg.svd(features, full_matrices=False)
    rank = int((singular > 1e-12 * singular[0]).sum())
    if rank == len(features):
        return True  # independent examples can be given any logits
    reduced = left[:, :rank] * singular[:rank]  # (n, rank): the features up to rotation
    rows = []
    others = torch.nonzero(~torch.isin(torch.arange(span.reference_logits.shape[1]), classes))[:, 0]
    for f, label in zip(reduced, labels.tolist(), strict=True):
        for c in [*classes.tolist(), *others[:1].tolist()]:
            if c == label or (c not in classes and label not in classes):
                continue
            row = torch.zeros(len(classes), rank, dtype=torch.float64)
            row[classes == label] += f
            row[classes == c] -= f
            rows.append(row.flatten())
    margins = torch.stack(rows).numpy()
    found = linprog(-margins.sum(0), A_ub=-margins, b_ub=[0.0] * len(margins), bounds=(-1, 1), method="highs")
    return bool(-found.fun > 1e-9 * abs(margins).sum())
