"""SGD with momentum on static buffers, its rate read from a tensor: one fused update that a CUDA graph can hold."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd


class Sgd:
    """Momentum SGD over named parameters; ``momenta`` are allocated at once and start at zero.

    A zero start gives the usual first step (velocity = gradient), so a resumed run and a fresh one share one code path.
    """

    def __init__(
        self, parameters: Iterable[tuple[str, nn.Parameter]], *, momentum: float, weight_decay: float, decay_on: str
    ) -> None:
        named = [(name, p) for name, p in parameters if p.requires_grad]
        self.momentum = momentum
        self.momenta = {name: torch.zeros_like(p) for name, p in named}
        decayed = {name: decay_on == "all" or p.ndim > 1 for name, p in named}
        self._groups = [
            (weight_decay if flag else 0.0, [(p, self.momenta[name]) for name, p in named if decayed[name] is flag])
            for flag in (True, False)
        ]

    def clear(self) -> None:
        """Forget gradients, so that the next backward pass allocates its own."""
        for _, group in self._groups:
            for p, _ in group:
                p.grad = None

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """One update with rate ()."""
        for weight_decay, group in self._groups:
            if not group:
                continue
            parameters: list[Tensor] = [p for p, _ in group]
            sgd(
                parameters,
                _gradients(parameters),
                [m for _, m in group],
                fused=True,
                weight_decay=weight_decay,
                momentum=self.momentum,
                lr=rate,  # pyright: ignore[reportArgumentType]
                dampening=0.0,
                nesterov=False,
                maximize=False,
            )


def _gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    """Gradients with exactly their parameters' strides, which the fused update asks for.

    Autograd gives dense gradients in the parameter's memory order, but along axes of length one (1x1 convolutions) the
    strides may be written differently; there a second view of the same memory is meant.
    """
    gradients = []
    for p in parameters:
        if p.grad is None:
            raise RuntimeError(f"a parameter of shape {tuple(p.shape)} got no gradient; every parameter must take part")
        same = p.grad.stride() == p.stride()
        gradients.append(p.grad if same else p.grad.as_strided(p.shape, p.stride()))
    return gradients
