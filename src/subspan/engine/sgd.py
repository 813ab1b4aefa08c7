"""Full-batch SGD in span coordinates: the paper's iterates and its stop rule, for a whole batch of sessions at once."""

from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.objective import Problem, Solution
from subspan.engine.span import Coordinates, Span, to_span

WARM_UP = 3  # steps before one is recorded
SYNC_EVERY = 25  # on a GPU the loop asks only so often whether every problem has stopped


@dataclass(frozen=True)
class SgdOptions:
    """The paper's optimiser. Momentum and weight decay act as in ``torch.optim.SGD``."""

    learning_rate: float | Tensor = 0.002  # one number, or one per problem (E,)
    momentum: float = 0.9
    max_steps: int = 1000
    tolerance: float = 1e-4  # a change of the loss below this counts as small
    patience: int = 10  # so many small changes in a row end a session


def sgd(problem: Problem, options: SgdOptions | None = None) -> Solution:
    """Minimise by gradient descent with momentum until the loss stands still.

    The loss is taken before each step and leaves out weight decay. From the second step on it is compared with the
    step before; ``patience`` consecutive changes below ``tolerance`` end the session, the last of these steps
    included. Every problem of a batch stops by itself. The problem is single (n, d) or batched (E, n, d).
    """
    span = to_span(problem)
    coordinates, steps, loss = descend(span, options or SgdOptions())
    rows = span.rows(coordinates)
    if problem.features.ndim == 2:
        return Solution(rows[0], steps[0], loss[0])
    return Solution(rows, steps, loss)


def descend(span: Span, options: SgdOptions) -> tuple[Coordinates, Tensor, Tensor]:
    """All steps of all problems: the last coordinates, steps (E,) and losses (E,)."""
    batch, device = span.labels.shape[0], span.labels.device
    result = span.start()
    result_steps = torch.zeros(batch, dtype=torch.int64, device=device)
    result_loss = span.weight_decay.new_full((batch,), torch.inf)
    rate = torch.as_tensor(options.learning_rate, dtype=result_loss.dtype, device=device).expand(batch)
    loop = _Loop(span, options, torch.arange(batch, device=device), rate.clone())
    sync_every, few = (SYNC_EVERY, 0.5) if device.type == "cuda" else (1, 1.0)
    for step in range(1, options.max_steps + 1):
        loop.step()
        if step % sync_every == 0:
            running = int(loop.running.sum())
            if running == 0:
                break
            if running < few * len(loop.running):  # go on with the others alone; on a CPU one that stopped is enough
                loop.write_to(result, result_steps, result_loss)
                loop = loop.shrunk()
    loop.write_to(result, result_steps, result_loss)
    return result, result_steps, result_loss


class _Loop:
    """The problems still in the loop, and their state. A step changes all of it in place, without asking the device."""

    def __init__(self, span: Span, options: SgdOptions, problems: Tensor, rate: Tensor) -> None:
        self.span, self.options, self.problems, self.rate = span, options, problems, rate
        self.x = span.start()
        self.velocity = self.x.map(torch.zeros_like)
        self.steps = torch.zeros_like(problems)
        self.small = torch.zeros_like(problems)  # small changes of the loss in a row
        self.loss = torch.full_like(rate, torch.inf)
        self.running = torch.ones_like(problems, dtype=torch.bool)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._taken = 0

    def step(self) -> None:
        """One step; on a GPU it is recorded once and then replayed without gaps between its kernels."""
        if self._graph is not None:
            self._graph.replay()
        elif self.problems.device.type != "cuda" or self._taken < WARM_UP:
            self._take_step()
            self._taken += 1
        else:
            torch.cuda.synchronize(self.problems.device)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._take_step()
            self._graph = graph
            graph.replay()  # recording does not run

    def _take_step(self) -> None:
        rate = self.rate * self.running
        loss = _gradient_step(self.span, self.x, self.velocity, rate, self.options.momentum)
        is_small = (loss - self.loss).abs() < self.options.tolerance  # never on the first step: the loss before is inf
        self.small.add_(1).mul_(is_small)
        torch.where(self.running, loss, self.loss, out=self.loss)
        self.steps.add_(self.running)
        self.running.logical_and_(self.small < self.options.patience)

    def write_to(self, x: Coordinates, steps: Tensor, loss: Tensor) -> None:
        """Write the state of these problems into that of all."""
        mine, all_of_them = ([c.delta, c.reference, *c.frame] for c in (self.x, x))
        for whole, piece in zip(all_of_them, mine, strict=True):
            whole[self.problems] = piece
        steps[self.problems], loss[self.problems] = self.steps, self.loss

    def shrunk(self) -> "_Loop":
        """The loop without the problems that have stopped."""
        keep = self.running.nonzero()[:, 0]
        other = _Loop(self.span.select(keep), self.options, self.problems[keep], self.rate[keep])
        other.x, other.velocity = (vector.map(lambda tensor: tensor[keep]) for vector in (self.x, self.velocity))
        other.steps, other.small, other.loss = self.steps[keep], self.small[keep], self.loss[keep]
        return other


def _gradient_step(span: Span, x: Coordinates, velocity: Coordinates, rate: Tensor, momentum: float) -> Tensor:
    """One step of SGD in place; returns the loss (E,) before it. A rate of 0 leaves a problem where it is."""
    scalar, duals = span.duals(x)
    change = span.square(x, scalar, duals).clamp_min_(0)  # squared norms by part (E, parts)
    cross_entropy, gradient = _cross_entropy_and_gradient(span, span.logits(duals))
    norm = change.sqrt()
    penalty = torch.where(span.is_norm, norm, change) * span.strength
    decay = span.weight_decay[:, None]
    hold = decay + pull_strength(span.strength, span.is_norm, norm)

    velocity.delta.mul_(momentum).add_(hold * x.delta)
    velocity.reference.mul_(momentum).add_(hold * x.reference + decay)
    back = -rate[:, None]
    x.delta.addcmul_(velocity.delta, back)
    x.reference.addcmul_(velocity.reference, back)
    for i, component in enumerate(span.components):
        frame, speed = x.frame[i], velocity.frame[i]
        pulled = component.pull(gradient[:, slice(*component.rows)])
        torch.add(pulled, speed, alpha=momentum, out=speed)
        speed.addcmul_(component.spread(hold[:, slice(*component.parts)]), frame)
        frame.addcmul_(speed, back[..., None])
    return cross_entropy + penalty.sum(-1)


def _cross_entropy_and_gradient(span: Span, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted cross-entropy (E,) and its gradient by the logits (E, C, n)."""
    labels, weight = span.labels[:, None], span.sample_weight[:, None]
    probability = torch.softmax(logits, dim=1)
    surprise = _surprise(logits, probability, labels)
    gradient = probability.mul_(weight).scatter_add_(1, labels, -weight)
    return (surprise * span.sample_weight).sum(-1), gradient


def _surprise(logits: Tensor, probability: Tensor, labels: Tensor) -> Tensor:
    """Minus the logarithm of the labels' probabilities (E, n); where these are no numbers any more, by the logits."""
    of_label = probability.gather(1, labels)[:, 0]
    tiny = torch.finfo(of_label.dtype).tiny
    if not of_label.is_cuda and float(of_label.min()) >= tiny:  # a GPU is not asked within a step
        return -of_label.log()
    top, top_class = logits.max(1, keepdim=True)
    of_top = probability.gather(1, top_class)
    return torch.where(of_label < tiny, (top - logits.gather(1, labels) - of_top.log())[:, 0], -of_label.log())


def pull_strength(strength: Tensor, is_norm: Tensor, norm: Tensor) -> Tensor:
    """The factor (E, parts) by which a penalty pulls a change back: its gradient is this times the change.

    At zero change the gradient of ``norm`` is taken as 0: the first step of a session starts exactly there.
    """
    of_norm = torch.where(norm > 0, strength / norm.clamp_min(torch.finfo(norm.dtype).tiny), 0)
    return torch.where(is_norm, of_norm, 2 * strength)
