"""What systems share whose sessions train a small network further: one network per problem of a batch, all at once.

Parameters are named tensors, each with the problems in front, ``(*batch, ...)``; what one problem learns does not
depend on the others beside it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from subspan.engine.contract import Base, Learner, Session, State
from subspan.learners.training.trained_system import TrainedSystem

Parameters = Mapping[str, Tensor]
Loss = Callable[[Parameters, int], Tensor]  # of parameters and the number of the step: (*batch,)


@dataclass(frozen=True)
class SessionTrainedSystem(TrainedSystem):
    """A system whose sessions train its part further, or something beside it: that is its state."""

    only_batches = True
    learns_more = False
    batch_on_cpu = 16  # of networks; gradients of more are too large for malloc to keep, and every step asks for them

    def forget(self, state: State, base: Base, places: Sequence[int]) -> State:
        return Learner.forget(self, state, base, places)  # what it trained is of all its classes

    def parameters(self, state: State) -> dict[str, Tensor]:
        """The part's tensors (*batch, ...): as the last session, or else training, left them.

        A session that trains only some of them has only these in its state.
        """
        trained, batch = self.part(state.base).to(state.rows), state.rows.shape[:-2]
        return {name: state.arrays.get(name, tensor.expand(*batch, *tensor.shape)) for name, tensor in trained.items()}


def linear(features: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """A layer (*batch, n, o) of features (*batch, n, i) by weight (*batch, i, o) and bias (*batch, o).

    >>> linear(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]), torch.tensor([5.0]))
    tensor([[16.]])
    """
    product = features @ weight
    return product if bias is None else product + bias[..., None, :]


def initial_layer(inputs: int, outputs: int, generator: torch.Generator) -> Tensor:
    """A weight (inputs, outputs), normal with the variance 1 / inputs."""
    return torch.randn(inputs, outputs, generator=generator, dtype=torch.float64) / inputs**0.5


def drawn_batches(weights: Tensor, size: int, steps: int, seeds: Sequence[int]) -> Tensor:
    """Positions (steps, len(seeds), size) of examples, drawn by their weights (n,), for each problem by its own seed.

    >>> drawn_batches(torch.tensor([0.0, 1.0]), 3, 1, [7])
    tensor([[[1, 1, 1]]])
    """
    drawn = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.multinomial(weights.cpu().double(), steps * size, replacement=True, generator=generator)
        drawn.append(chosen.view(steps, size))
    return torch.stack(drawn, dim=1).to(weights.device)


def without_repeats(batches: Tensor, like: Tensor) -> list[tuple[Tensor, Tensor]]:
    """For each step of batches (steps, problems, size) its examples (problems, m), each once, and their shares of it.

    A problem with fewer than the m of another one has some more of them, whose share is 0.

    >>> without_repeats(torch.tensor([[[2, 0, 2, 2]]]), torch.zeros(1, 3, 5))  # three examples of width 5
    [(tensor([[2, 0]]), tensor([[0.7500, 0.2500]]))]
    """
    steps, problems, size = batches.shape
    each = like.new_full((), 1 / size).expand(batches.shape)
    shares = like.new_zeros(steps, problems, like.shape[-2]).scatter_add(-1, batches, each)
    sizes = shares.gt(0).sum(-1).amax(-1).tolist()
    shares, positions = shares.sort(dim=-1, descending=True, stable=True)
    return [(positions[step, :, :size], shares[step, :, :size]) for step, size in enumerate(sizes)]


def cosine_rates(rate: float, steps: int, *, warm_up: int = 0, last: float = 0.0) -> list[float]:
    """Learning rates that rise for ``warm_up`` steps and then fall along a cosine to ``last`` times the first.

    >>> [round(rate, 2) for rate in cosine_rates(1.0, 5, warm_up=1)]
    [0.5, 1.0, 0.75, 0.25, 0.0]
    """
    rising = [rate * (step + 1) / (warm_up + 1) for step in range(min(warm_up, steps))]
    rest = max(steps - warm_up, 0)
    share = [0.5 * (1 + math.cos(math.pi * step / max(rest - 1, 1))) for step in range(rest)]
    return rising + [rate * (last + (1 - last) * part) for part in share]


def descend(
    parameters: Parameters,
    loss: Loss,
    rates: Sequence[float],
    *,
    rule: Literal["sgd", "adam"],
    momentum: float = 0.9,
    decay: float = 0.0,
) -> dict[str, Tensor]:
    """The parameters after one step for each of the rates, every problem by the gradient of its own loss."""
    leaves = {name: tensor.detach().clone().requires_grad_() for name, tensor in parameters.items()}
    values = list(leaves.values())  # fused: one pass through memory a step
    if rule == "sgd":
        optimiser: torch.optim.Optimizer = torch.optim.SGD(values, momentum=momentum, weight_decay=decay, fused=True)
    else:
        optimiser = torch.optim.Adam(values, weight_decay=decay, fused=True)
    with torch.enable_grad():
        for step, rate in enumerate(rates):
            for group in optimiser.param_groups:
                group["lr"] = rate
            optimiser.zero_grad()
            loss(leaves, step).sum().backward()
            optimiser.step()
    return {name: leaf.detach() for name, leaf in leaves.items()}


@dataclass(frozen=True)
class Span:
    """The span of a problem's training features, which the gradient of a layer that they enter never leaves.

    The gradient of the loss by the weight W (d, o) of such a layer is X^T (...), with the features X (n, d). So SGD on
    W moves B^T W alone, B (d, r) an orthonormal basis of the span, just as SGD on that smaller weight would with
    features X B; what lies outside only decays.
    """

    basis: Tensor  # B (*batch, d, r)

    @classmethod
    def of(cls, features: Tensor) -> "Span":
        """The span of features (*batch, n, d)."""
        return cls(torch.linalg.qr(features.mT.double()).Q.to(features))

    def coordinates(self, features: Tensor) -> Tensor:
        """Features (*batch, n, d) of the span as (*batch, n, r)."""
        return features @ self.basis

    def inside(self, weight: Tensor) -> Tensor:
        """The part (*batch, r, o) of a layer's weight (*batch, d, o) that meets features of the span."""
        return self.basis.mT @ weight

    def with_inside(self, weight: Tensor, inside: Tensor, outside: float) -> Tensor:
        """A weight (*batch, d, o) with another part inside (*batch, r, o), and ``outside`` times what is outside.

        >>> span = Span.of(torch.tensor([[0.0, 2.0]]))
        >>> span.with_inside(torch.tensor([[8.0], [3.0]]), 2 * span.inside(torch.tensor([[8.0], [3.0]])), 0.5)
        tensor([[4.],
                [6.]])
        """
        return outside * weight + self.basis @ (inside - outside * self.inside(weight))


def decayed(rates: Sequence[float], *, momentum: float = 0.9, decay: float = 0.0) -> float:
    """What ``descend`` by SGD leaves of a weight of one that has no gradient.

    >>> decayed([0.5], decay=0.1)
    0.95
    """
    weight, velocity = 1.0, 0.0
    for rate in rates:
        velocity = momentum * velocity + decay * weight
        weight -= rate * velocity
    return weight


def with_memories(session: Session) -> tuple[Tensor, Tensor]:
    """Features (*batch, n, d) and labels (*batch, n) of a session's support and of all its stored examples."""
    parts = [(session.support, session.labels), *((memory.features, memory.labels) for memory in session.memories)]
    features, labels = zip(*parts, strict=True)
    return torch.cat(features, dim=-2), torch.cat(labels, dim=-1)
