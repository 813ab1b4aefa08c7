"""Full-batch SGD in span coordinates: the paper's iterates and its stop rule, for a whole batch of sessions at once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from .objective import Problem, Solution
from .span import Coordinates, Span, to_span

SYNC_EVERY = 25  # on a GPU the loop asks only so often whether every problem has stopped


@dataclass(frozen=True)
class SgdOptions:
    """The paper's optimiser. Momentum and weight decay act as in ``torch.optim.SGD``."""

    learning_rate: float | Tensor = 0.002  # one number, or one per problem (E,)
    momentum: float = 0.9
    max_steps: int = 1000
    tolerance: float = 1e-4  # a change of the loss below this counts as small
    patience: int = 10  # so many small changes in a row end a session


def sgd(
    problem: Problem, options: SgdOptions | None = None, progress: Callable[[int], object] | None = None
) -> Solution:
    """Minimise by gradient descent with momentum until the loss stands still.

    The loss is taken before each step and leaves out weight decay. From the second step on it is compared with the
    step before; ``patience`` consecutive changes below ``tolerance`` end the session, the last of these steps
    included. Every problem of a batch stops by itself.

    Parameters
    ----------
    problem : the session, single (n, d) or batched (E, n, d).
    options : the optimiser's settings.
    progress : called with the number of each step.
    """
    options = options or SgdOptions()
    span = to_span(problem)
    coordinates, steps, loss = _descend(span, options, progress)
    rows = span.rows(coordinates)
    if problem.features.ndim == 2:
        return Solution(rows[0], steps[0], loss[0])
    return Solution(rows, steps, loss)


def _descend(
    span: Span, options: SgdOptions, progress: Callable[[int], object] | None
) -> tuple[Coordinates, Tensor, Tensor]:
    batch, device = span.labels.shape[0], span.labels.device
    result = span.start()
    result_steps = torch.zeros(batch, dtype=torch.int64, device=device)
    result_loss = span.weight_decay.new_full((batch,), torch.inf)
    everything = torch.arange(batch, device=device)
    rate = torch.as_tensor(options.learning_rate, dtype=result_loss.dtype, device=device).expand(batch)

    # `alive` are the problems still in the loop; finished ones leave it when they are half of it.
    alive, x, velocity = everything, span.start(), span.start().map(torch.zeros_like)
    steps, small = result_steps.clone(), result_steps.clone()
    previous = result_loss.clone()
    running = torch.ones(batch, dtype=torch.bool, device=device)
    sync_every = SYNC_EVERY if device.type == "cuda" else 1

    def leave() -> None:
        for whole, piece in zip(
            [result.delta, result.reference, *result.frame], [x.delta, x.reference, *x.frame], strict=True
        ):
            whole[alive] = piece
        result_steps[alive], result_loss[alive] = steps, previous

    for step in range(1, options.max_steps + 1):
        loss = _gradient_step(span, x, velocity, rate * running, options.momentum)
        if step > 1:
            small = torch.where((loss - previous).abs() < options.tolerance, small + 1, torch.zeros_like(small))
        previous = torch.where(running, loss, previous)
        steps += running
        running &= small < options.patience
        if progress is not None:
            progress(step)
        if step % sync_every == 0:
            count = int(running.sum())
            if count == 0:
                break
            if 2 * count <= len(running):
                leave()
                keep = running.nonzero()[:, 0]
                alive, span = alive[keep], span.select(keep)
                x, velocity = x.map(partial(_pick, keep)), velocity.map(partial(_pick, keep))
                steps, small, previous, rate, running = (t[keep] for t in (steps, small, previous, rate, running))
    leave()
    return result, result_steps, result_loss


def _gradient_step(span: Span, x: Coordinates, velocity: Coordinates, rate: Tensor, momentum: float) -> Tensor:
    """One step of SGD in place; returns the loss (E,) before it. A rate of 0 leaves a problem where it is."""
    scalar, duals = span.duals(x)
    change = span.inner(x, x, scalar, duals).clamp_min_(0)  # squared norms by part (E, parts)
    cross_entropy, gradient = cross_entropy_and_gradient(span, span.logits(duals))
    norm = change.sqrt()
    penalty = torch.where(span.is_norm, norm, change) * span.strength
    pull = pull_strength(span, norm)
    decay = span.weight_decay[:, None]

    velocity.delta.mul_(momentum).add_((decay + pull) * x.delta)
    velocity.reference.mul_(momentum).add_((decay + pull) * x.reference + decay)
    x.delta.addcmul_(velocity.delta, -rate[:, None])
    x.reference.addcmul_(velocity.reference, -rate[:, None])
    for i, component in enumerate(span.components):
        hold = component.spread((decay + pull)[:, slice(*component.parts)])
        velocity.frame[i].mul_(momentum).add_(component.pull(gradient[:, slice(*component.rows)])).addcmul_(
            hold, x.frame[i]
        )
        x.frame[i].addcmul_(velocity.frame[i], -rate[:, None, None])
    return cross_entropy + penalty.sum(-1)


def _pick(indices: Tensor, tensor: Tensor) -> Tensor:
    return tensor[indices]


def cross_entropy_and_gradient(span: Span, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The weighted cross-entropy (E,) and its gradient by the logits (E, C, n). Overwrites the logits."""
    log_probability = torch.log_softmax(logits, dim=1)
    labels = span.labels[:, None]
    cross_entropy = -(log_probability.gather(1, labels)[:, 0] * span.sample_weight).sum(-1)
    gradient = log_probability.exp_().mul_(span.sample_weight[:, None])
    gradient.scatter_add_(1, labels, -span.sample_weight[:, None])
    return cross_entropy, gradient


def pull_strength(span: Span, norm: Tensor) -> Tensor:
    """The factor (E, parts) by which a penalty pulls a change back: its gradient is this times the change.

    At zero change the gradient of ``norm`` is taken as 0: the first step of a session starts exactly there.
    """
    of_norm = torch.where(norm > 0, span.strength / norm.clamp_min(torch.finfo(norm.dtype).tiny), 0)
    return torch.where(span.is_norm, of_norm, 2 * span.strength)
