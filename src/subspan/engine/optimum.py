"""The exact minimum of a session's objective: Newton's method with conjugate gradients, batched.

The objective is convex and, with weight decay, has one minimum: no learning rate, no random start, no stop rule. Its
only corner is the zero change of a ``norm`` penalty, a usual place for the minimum to lie. So a ``norm`` part is either
*held* at exactly zero change or *free*, where the objective is smooth. A held part is let go when the gradient there is
longer than its strength; a free one is held when zeroing its change lowers the objective. Both only ever lower it.
Optimality is judged by the minimal-norm subgradient in weight space.

The unknowns are changes of rows from their references, in orthonormal coordinates. Gradients of a row lie in the span
of the features, k numbers in a frame of it. Outside that span they are, for all rows of a part, the same multiple of
what the references have there: one number more does for the whole part. So nothing of size d is in the loop, and inner
products are those of plain arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from subspan.engine.objective import Problem, Share, Solution, batched, per_problem, shares
from subspan.engine.sgd import pull_strength

STALLED = 5  # Newton steps in a row without progress end a problem


def optimum(problem: Problem, *, tolerance: float = 1e-8, max_newton: int = 200) -> Solution:
    """Find the minimum of a session's objective.

    Parameters
    ----------
    problem : the session, single (n, d) or batched (E, n, d); float64 for the full accuracy.
    tolerance : the minimal-norm subgradient is brought below this times its length at the references, as far as the
        arithmetic of the features' dtype allows.
    """
    session = _Session.of(problem)
    if bool(((session.strength == 0) & (session.weight_decay == 0)).any()):
        raise ValueError(
            "with weight decay 0 and separable data no minimum exists for rows that no penalty holds; set weight_decay "
            "above 0 or use solver='sgd'"
        )
    newton = _Newton(session, tolerance)
    newton.run(max_newton)
    rows, steps, loss = session.rows(newton.x), newton.steps, newton.value
    return Solution(rows, steps, loss) if problem.features.ndim == 3 else Solution(rows[0], steps[0], loss[0])


@dataclass(frozen=True)
class _Part:
    """A group of rows, or its share inside or outside a basis. It owns consecutive rows of the unknowns."""

    rows: slice  # of the unknowns
    classes: slice
    features: Tensor  # (E, n, k + 1): in the frame, then 0
    frame: Tensor  # (E, k, d): orthonormal, k = min(n, d); the features' span lies in theirs
    start: Tensor  # (E, rows, k + 1): the reference in the frame, and once the length of what it has outside
    reference: Tensor  # (E, rows, d)
    outside: Tensor  # (E, rows, d): the direction, of length 1, of what the reference has outside the frame

    @classmethod
    def of(cls, rows: slice, classes: slice, share: Share) -> "_Part":
        features = share.features
        if share.reference is None:
            reference = features.new_zeros(len(features), rows.stop - rows.start, features.shape[-1])
        else:
            reference = share.reference.expand(len(features), -1, -1)
        frame = torch.linalg.qr(features.mT)[0].mT
        outside = _outside(reference, frame)
        length = outside.flatten(1).norm(dim=1)
        outside = outside / torch.where(length > 0, length, 1)[:, None, None]
        start = torch.nn.functional.pad(reference @ frame.mT, (0, 1))
        start[:, 0, -1] = length
        return cls(
            rows, classes, torch.nn.functional.pad(features @ frame.mT, (0, 1)), frame, start, reference, outside
        )

    def weights(self, change: Tensor) -> Tensor:
        """Full weights (E, rows, d) of a change (E, rows, k + 1)."""
        return self.reference + change[..., :-1] @ self.frame + change[:, :1, -1:] * self.outside


@dataclass(frozen=True)
class _Session:
    """E problems in coordinates; unknowns are (E, R, k + 1)."""

    parts: list[_Part]
    part_of_row: Tensor  # (R,)
    reference: Tensor  # (E, R, k + 1)
    labels: Tensor  # (E, n)
    sample_weight: Tensor  # (E, n)
    still: Tensor | None  # (E, n)
    weight_decay: Tensor  # (E, 1)
    strength: Tensor  # (E, parts)
    is_norm: Tensor  # (parts,)

    @classmethod
    def of(cls, problem: Problem) -> "_Session":
        """A problem, batched (E, n, d) or single (n, d), in coordinates."""
        features = batched(problem.features)
        parts: list[_Part] = []
        every: list[Share] = []
        first_class = first_row = 0
        for group in problem.groups:
            count = group.start.shape[-2]
            for share in shares(group, features):
                rows, classes = slice(first_row, first_row + count), slice(first_class, first_class + count)
                parts.append(_Part.of(rows, classes, share))
                every.append(share)
                first_row += count
            first_class += count
        counts = torch.tensor([part.rows.stop - part.rows.start for part in parts])
        return cls(
            parts=parts,
            part_of_row=torch.repeat_interleave(torch.arange(len(parts)), counts).to(features.device),
            reference=torch.cat([part.start for part in parts], dim=1),
            labels=batched(problem.labels, 1),
            sample_weight=batched(problem.sample_weight, 1).to(features),
            still=None if problem.still is None else batched(problem.still, 1).to(features),
            weight_decay=per_problem(problem.weight_decay, features)[:, None],
            strength=torch.stack([per_problem(share.strength, features) for share in every], dim=-1),
            is_norm=torch.tensor([share.penalty == "norm" for share in every], device=features.device),
        )

    def rows(self, x: Tensor) -> Tensor:
        """Full weights (E, C, d) of unknowns."""
        blocks: dict[int, Tensor] = {}
        for part in self.parts:
            whole, first = part.weights(x[:, part.rows]), part.classes.start
            blocks[first] = blocks[first] + whole if first in blocks else whole
        return torch.cat([blocks[first] for first in sorted(blocks)], dim=1)

    def logits(self, x: Tensor) -> Tensor:
        """Logits (E, C, n) of vectors of weights."""
        logits = x.new_zeros(len(x), self.parts[-1].classes.stop, self.labels.shape[1])
        for part in self.parts:
            logits[:, part.classes] += x[:, part.rows] @ part.features.mT
        return logits

    def pulled(self, by_logits: Tensor) -> Tensor:
        """A gradient by the logits (E, C, n) as one by the unknowns."""
        return torch.cat([by_logits[:, part.classes] @ part.features for part in self.parts], dim=1)

    def dot(self, a: Tensor, b: Tensor) -> Tensor:
        """Inner products by part (E, parts)."""
        by_row = (a * b).sum(-1)
        return by_row.new_zeros(self.strength.shape).index_add_(1, self.part_of_row, by_row)

    def spread(self, numbers: Tensor) -> Tensor:
        """Numbers per part (E, parts) as numbers per row (E, R, 1)."""
        return numbers[:, self.part_of_row, None]

    def at(self, x: Tensor) -> "_Point":
        """A point with what a Newton step needs of it."""
        change, weights, labels = self.dot(x, x), self.reference + x, self.labels[:, None]
        logits = self.logits(weights)
        count = logits.shape[1]
        if self.still is not None:
            logits = torch.cat([logits, self.still[:, None]], dim=1)
        likelihood = torch.log_softmax(logits, dim=1)
        value = -(likelihood.gather(1, labels)[:, 0] * self.sample_weight).sum(-1)
        value = value + self.weight_decay[:, 0] / 2 * weights.square().sum((-2, -1))
        value = value + (torch.where(self.is_norm, change.sqrt(), change) * self.strength).sum(-1)
        probability, pull = likelihood.exp()[:, :count], pull_strength(self.strength, self.is_norm, change.sqrt())
        missed = probability.scatter_add(1, labels, -torch.ones_like(probability[:, :1]))
        gradient = self.pulled(missed * self.sample_weight[:, None])
        gradient = gradient + self.spread(pull) * x + self.weight_decay[..., None] * weights
        return _Point(self, x, probability, change, pull, gradient, value)


@dataclass(frozen=True)
class _Point:
    """Unknowns and all that follows from them."""

    session: _Session
    x: Tensor  # (E, R, k + 1)
    probability: Tensor  # (E, C, n): of every class for every example
    change: Tensor  # squared norms by part (E, parts)
    pull: Tensor  # (E, parts): the gradient of a penalty is this times the change
    gradient: Tensor  # of the smooth part; a `norm` penalty counts as smooth where its change is not zero
    value: Tensor  # (E,)

    @cached_property
    def at_corner(self) -> Tensor:
        """Which parts (E, parts) lie in the corner of their penalty."""
        return self.session.is_norm & (self.change == 0)

    def subgradient(self) -> Tensor:
        """Length of the minimal-norm subgradient by part (E, parts)."""
        length = self.session.dot(self.gradient, self.gradient).sqrt()
        return torch.where(self.at_corner, (length - self.session.strength).clamp_min(0), length)

    def curvature(self, v: Tensor) -> Tensor:
        """The Hessian times v."""
        session, probability = self.session, self.probability
        weighted = probability * session.logits(v)
        by_logits = (weighted - probability * weighted.sum(1, keepdim=True)) * session.sample_weight[:, None]
        # The radial direction of a norm has no curvature.
        along = session.dot(self.x, v) / self.change.clamp_min(torch.finfo(v.dtype).tiny)
        radial = torch.where(session.is_norm & (self.change > 0), self.pull * along, 0)
        hold = session.spread(session.weight_decay + self.pull)
        return session.pulled(by_logits) + hold * v - session.spread(radial) * self.x


class _Newton:
    """The state of a batched Newton iteration."""

    def __init__(self, session: _Session, tolerance: float) -> None:
        self.session, self.x = session, torch.zeros_like(session.reference)
        self.held = (session.is_norm & (session.strength > 0)).expand_as(session.strength).clone()
        self.steps = torch.zeros_like(session.labels[:, 0])
        start = session.at(self.x)
        self.goal, self.value = tolerance * start.subgradient().norm(dim=-1), start.value

    def run(self, max_newton: int) -> None:
        """Go on until every problem has its minimum, or rounding is all that is left."""
        stalled = torch.zeros_like(self.steps)
        least_value, least_length = (torch.full_like(self.value, torch.inf) for _ in range(2))
        for _ in range(max_newton):
            point = self._hold(self.session.at(self.x))
            shortfall = point.subgradient()
            length = shortfall.norm(dim=-1)
            # Where neither the value nor the subgradient gets any smaller, rounding is all that is left.
            better = (point.value < least_value - _rounding(point.value)) | (length < 0.9 * least_length)
            stalled = torch.where(better, 0, stalled + 1)
            least_value, least_length = torch.minimum(least_value, point.value), torch.minimum(least_length, length)
            active = (length > self.goal) & (stalled < STALLED)
            self.x, self.value = point.x, point.value
            if not bool(active.any()):
                break
            self.steps += active
            free, held = (torch.where(where, shortfall, 0).norm(dim=-1) for where in (~self.held, self.held))
            # Once the free parts are better than the held ones, those that want to leave do so, by themselves.
            leaving = self.held & (shortfall > 0) & (held > free)[:, None] & active[:, None]
            self.held &= ~leaving
            direction = self._direction(point, length, active & ~leaving.any(-1))
            if bool(leaving.any()):
                direction = direction + self._departure(point, leaving)
            self._line_search(point, direction, active)

    def _hold(self, point: _Point) -> _Point:
        """Hold the free ``norm`` parts whose zero change has a lower objective."""
        for part in torch.nonzero(self.session.is_norm)[:, 0].tolist():
            where = torch.zeros_like(self.held)
            where[:, part] = ~self.held[:, part] & (point.change[:, part] > 0)
            if not bool(where.any()):
                continue
            trial = self.session.at(self._masked(point.x, ~where))
            where &= (trial.value <= point.value)[:, None]
            if bool(where.any()):
                self.held |= where
                point = self.session.at(self._masked(point.x, ~where))
        return point

    def _masked(self, x: Tensor, keep: Tensor) -> Tensor:
        """x with the parts outside the mask (E, parts) set to zero."""
        return x * self.session.spread(keep)

    def _departure(self, point: _Point, leaving: Tensor) -> Tensor:
        """From the corner along the minimal-norm subgradient, as far as the curvature there suggests."""
        session, tiny = self.session, torch.finfo(point.value.dtype).tiny
        length = session.dot(point.gradient, point.gradient).sqrt().clamp_min(tiny)
        step = point.gradient * session.spread(torch.where(leaving, session.strength / length - 1, 0))
        curvature = session.dot(self._masked(point.curvature(step), ~self.held), step).sum(-1)
        squares = session.dot(step, step).sum(-1)
        return step * torch.where(curvature > 0, squares / curvature.clamp_min(tiny), 1.0)[:, None, None]

    def _direction(self, point: _Point, length: Tensor, active: Tensor) -> Tensor:
        """Solve H p = -g on the free parts."""
        free = ~self.held
        # Eisenstat and Walker: solve as exactly as the remaining error deserves.
        relative = (length / self.goal.clamp_min(torch.finfo(length.dtype).tiny)).clamp_min(1)
        forcing = (1 / relative.sqrt()).clamp(1e-10, 0.1)
        right = self._masked(-point.gradient, free & active[:, None])
        return conjugate_gradients(lambda v: self._masked(point.curvature(v), free), right, forcing)

    def _line_search(self, point: _Point, direction: Tensor, active: Tensor) -> None:
        """Move along the direction as far as the objective falls."""
        session = self.session
        slope = session.dot(point.gradient, direction)
        corner = session.strength * session.dot(direction, direction).sqrt()
        slope = (slope + torch.where(point.at_corner, corner, 0)).sum(-1)
        scale, waiting = active.to(slope), active.clone()
        for _ in range(60):
            value = session.at(point.x + scale[:, None, None] * direction).value
            waiting &= ~(value <= point.value + 1e-4 * scale * slope + _rounding(point.value))
            if not bool(waiting.any()):
                break
            scale = torch.where(waiting, scale / 2, scale)
        scale = torch.where(waiting, 0, scale)
        self.x = point.x + scale[:, None, None] * direction


def conjugate_gradients(
    product: Callable[[Tensor], Tensor], right: Tensor, tolerance: float | Tensor = 1e-8, most: int = 2000
) -> Tensor:
    """Solutions (E, ...) of E systems with positive definite matrices, each to a relative residual, one or (E,).

    >>> conjugate_gradients(lambda v: v * torch.tensor([2.0, 4.0]), torch.tensor([[2.0, 2.0]]))
    tensor([[1.0000, 0.5000]])
    """
    tiny = torch.finfo(right.dtype).tiny

    def squares(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).flatten(1).sum(-1).view(-1, *[1] * (a.ndim - 1))

    solution, residual = torch.zeros_like(right), right.clone()
    direction, length = right.clone(), squares(right, right)
    goal = torch.as_tensor(tolerance, dtype=right.dtype, device=right.device).expand(len(right)).view_as(length)
    goal = goal**2 * length
    for _ in range(most):
        running = length > goal
        if not bool(running.any()):
            break
        along = product(direction)
        curvature = squares(direction, along)
        running &= curvature > 0
        step = torch.where(running, length / curvature.clamp_min(tiny), 0)
        solution = solution + step * direction
        residual = residual - step * along
        new = squares(residual, residual)
        direction = residual + torch.where(running, new / length.clamp_min(tiny), 0) * direction
        length = torch.where(running, new, 0)
    return solution


def _rounding(value: Tensor) -> Tensor:
    """How much of a difference of objectives may be rounding."""
    return 8 * torch.finfo(value.dtype).eps * value.abs()


def _outside(vectors: Tensor, frame: Tensor) -> Tensor:
    """The share of vectors (E, rows, d) outside an orthonormal frame (E, k, d); mere rounding becomes zero."""
    rest = vectors - (vectors @ frame.mT) @ frame
    rest = rest - (rest @ frame.mT) @ frame  # twice is enough
    negligible = rest.norm(dim=-1, keepdim=True) <= 1e3 * torch.finfo(rest.dtype).eps * vectors.norm(
        dim=-1, keepdim=True
    )
    return torch.where(negligible, 0, rest)
