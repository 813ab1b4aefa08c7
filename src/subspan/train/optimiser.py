"""Optimisers on static buffers, their rate read from a tensor, so that a CUDA graph can hold an update.

SGD with momentum as one fused update, and Muon for the kernels of convolutions with SGD for the rest.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

KERNEL_MOMENTUM = 0.95  # of Muon
_POLYNOMIAL = 3.4445, -4.7750, 2.0315  # Jordan et al.'s: five rounds bring any singular value above 0.01 near 1
_ROUNDS = 3, 2  # between two products with the whole matrix; all five at once are too many for bf16


class Optimiser(Protocol):
    """What a training step asks for: buffers by the name of their parameter, and one update."""

    momenta: dict[str, Tensor]

    def clear(self) -> None: ...

    def step(self, rate: Tensor) -> None: ...


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


class Muon:
    """Muon (Jordan et al., 2024) for kernels of convolutions, momentum SGD for every other parameter.

    A kernel is a matrix with one row per filter. Its momentum, looking one step ahead, is brought to the nearest
    matrix whose singular values are all about one; the kernel turns that way by ``rate * kernel_factor`` of its length
    and keeps its length, since behind a normalisation only its direction counts. So kernels know no weight decay.
    """

    def __init__(
        self,
        parameters: Iterable[tuple[str, nn.Parameter]],
        sgd: Callable[[Iterable[tuple[str, nn.Parameter]]], Sgd],
        *,
        kernel_factor: float,
    ) -> None:
        named = [(name, p) for name, p in parameters if p.requires_grad]
        self._sgd = sgd([(name, p) for name, p in named if p.ndim != 4])
        self._factor = kernel_factor
        kernels = {name: p for name, p in named if p.ndim == 4}
        self._kernels = list(kernels.values())
        self._momenta = [torch.zeros_like(p) for p in self._kernels]
        self.momenta = self._sgd.momenta | dict(zip(kernels, self._momenta, strict=True))
        shapes = [(len(p), p[0].numel()) for p in self._kernels]
        self._alike = [[i for i, other in enumerate(shapes) if other == shape] for shape in dict.fromkeys(shapes)]
        self._shares = [min(shape) ** -0.5 for shape in shapes]  # the length of an orthogonal matrix is a square root

    def clear(self) -> None:
        """Forget gradients, so that the next backward pass allocates its own."""
        self._sgd.clear()
        for p in self._kernels:
            p.grad = None

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """One update with rate ()."""
        self._sgd.step(rate)
        if not self._kernels:
            return
        kernels: list[Tensor] = list(self._kernels)
        gradients = _gradients(kernels)
        torch._foreach_mul_(self._momenta, KERNEL_MOMENTUM)
        torch._foreach_add_(self._momenta, gradients)
        updates = self._orthogonal(torch._foreach_add(gradients, self._momenta, alpha=KERNEL_MOMENTUM))
        lengths = torch._foreach_norm(kernels)
        torch._foreach_mul_(updates, torch._foreach_mul(lengths, self._shares))
        torch._foreach_mul_(updates, rate * self._factor)
        torch._foreach_sub_(kernels, updates)
        torch._foreach_mul_(kernels, torch._foreach_div(lengths, torch._foreach_norm(kernels)))

    def _orthogonal(self, ahead: Sequence[Tensor]) -> list[Tensor]:
        """Of each kernel's (o, i, h, w), those of one shape in one go; in the kernels' memory order."""
        updates = list(ahead)
        for places in self._alike:
            last = [ahead[i].permute(0, 2, 3, 1) for i in places]  # channels last, as kernels lie on a GPU
            stacked = torch.stack([values.flatten(1) for values in last])
            found = orthogonal(stacked, torch.bfloat16 if stacked.is_cuda else stacked.dtype)
            for i, values, matrix in zip(places, last, found, strict=True):
                updates[i] = matrix.view(values.shape).permute(0, 3, 1, 2)
        return updates


def orthogonal(matrices: Tensor, dtype: torch.dtype) -> Tensor:
    """Matrices (k, m, n) with the same singular vectors and singular values of about one, computed in ``dtype``.

    Newton and Schulz's way: an odd polynomial of a matrix is the polynomial of its singular values, and this one brings
    all that are not tiny beside the largest between 0.6 and 1.25. Several rounds are taken on the small square ``x x'``
    before the matrix itself is multiplied, which for kernels is half of the arithmetic.
    """
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = (x / torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True).clamp_min(1e-12)).to(dtype)
    first, third, fifth = _POLYNOMIAL
    constant = first * torch.eye(x.shape[1], dtype=dtype, device=x.device)
    for rounds in _ROUNDS:
        square = x @ x.mT
        rest = torch.baddbmm(square, square, square, beta=third, alpha=fifth)  # of the polynomial, beside its constant
        factor = constant + rest
        for _ in range(rounds - 1):
            square = torch.baddbmm(square, rest, square, beta=first)
            square = torch.baddbmm(square, square, rest, beta=first)
            rest = torch.baddbmm(square, square, square, beta=third, alpha=fifth)
            factor = torch.baddbmm(factor, rest, factor, beta=first)
        x = factor @ x
    return (x.mT if tall else x).to(matrices.dtype)


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
