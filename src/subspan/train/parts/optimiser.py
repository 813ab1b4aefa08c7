"""Optimisers on static buffers, their rate read from a tensor, so that a CUDA graph can hold an update; the rates.

SGD with momentum as one fused update, and Muon for the kernels of convolutions with SGD for the rest.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.sgd import sgd

from subspan.train.recipe import Recipe

Named = Iterable[tuple[str, nn.Parameter]]

KERNEL_MOMENTUM = 0.95  # of Muon
_POLYNOMIAL = 3.4445, -4.7750, 2.0315  # Jordan et al.'s: five rounds bring any singular value above 0.01 near 1
_ROUNDS = 3, 2  # between two products with the whole matrix; all five at once are too many for bf16


def learning_rates(recipe: Recipe, steps_per_epoch: int) -> NDArray[np.float32]:
    """Rates (epochs * steps_per_epoch,): constant between cuts, or half a cosine that is zero after the last step."""
    total = recipe.epochs * steps_per_epoch
    step = np.arange(total)
    if recipe.schedule == "cosine":
        return (recipe.learning_rate * 0.5 * (1 + np.cos(math.pi * step / total))).astype(np.float32)
    passed = np.searchsorted(recipe.cuts, step // steps_per_epoch, side="right")
    return (recipe.learning_rate * np.power(recipe.cut_factor, passed.astype(np.float64))).astype(np.float32)


class Sgd:
    """Momentum SGD over named parameters; ``momenta`` are allocated at once and start at zero.

    A zero start gives the usual first step (velocity = gradient), so a resumed run and a fresh one share one code path.
    """

    def __init__(self, parameters: Named, *, momentum: float, weight_decay: float) -> None:
        named = {name: p for name, p in parameters if p.requires_grad}
        self._options: dict[str, Any] = {"momentum": momentum, "weight_decay": weight_decay, "dampening": 0.0}
        self.momenta = {name: torch.zeros_like(p) for name, p in named.items()}
        self._parameters, self._velocities = list[Tensor](named.values()), list[Tensor | None](self.momenta.values())

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """One update with rate ()."""
        options = {**self._options, "lr": rate, "fused": True, "nesterov": False, "maximize": False}
        sgd(self._parameters, _gradients(self._parameters), self._velocities, **options)


class Muon(Sgd):
    """Muon (Jordan et al., 2024) for kernels of convolutions, momentum SGD for every other parameter.

    A kernel is a matrix with one row per filter. Its momentum, looking one step ahead, is brought to the nearest
    matrix whose singular values are all about one; the kernel turns that way by ``rate * kernel_factor`` of its length
    and keeps its length, since behind a normalisation only its direction counts. So kernels know no weight decay.
    """

    def __init__(self, parameters: Named, *, kernel_factor: float, **options: float) -> None:
        named = dict(parameters)
        super().__init__([(name, p) for name, p in named.items() if p.ndim != 4], **options)
        kernels = {name: p for name, p in named.items() if p.ndim == 4}
        self._factor, self._kernels = kernel_factor, list[Tensor](kernels.values())
        self._averages = [torch.zeros_like(p) for p in self._kernels]
        self.momenta |= dict(zip(kernels, self._averages, strict=True))
        # The length of an orthogonal matrix is a square root.
        self._shares = [min(len(p), p[0].numel()) ** -0.5 for p in self._kernels]
        self._stacks = [_stack(self._kernels, filters) for filters in dict.fromkeys(map(len, self._kernels))]

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """One update with rate ()."""
        super().step(rate)
        kernels, gradients = self._kernels, _gradients(self._kernels)
        # Means in place of sums: what follows asks for the direction alone.
        torch._foreach_lerp_(self._averages, gradients, 1 - KERNEL_MOMENTUM)
        ahead = torch._foreach_lerp(gradients, self._averages, KERNEL_MOMENTUM)
        lengths = torch._foreach_norm(kernels)
        ways = torch._foreach_mul(torch._foreach_mul(lengths, self._shares), rate * self._factor)
        for matrices, parts in self._stacks:
            norms = torch._foreach_clamp_min(torch._foreach_norm([ahead[i] for i in parts]), 1e-12)
            for (i, part), norm in zip(parts.items(), norms, strict=True):
                torch.div(ahead[i].permute(0, 2, 3, 1), norm, out=part)  # channels last, as kernels lie on a GPU
            for (i, part), matrix in zip(parts.items(), orthogonal(matrices), strict=True):
                direction = _unfolded(matrix[:, : part[0].numel()], ahead[i]).permute(0, 3, 1, 2)
                kernels[i].addcmul_(direction, ways[i], value=-1)
        torch._foreach_mul_(kernels, torch._foreach_div(lengths, torch._foreach_norm(kernels)))


def create_optimiser(recipe: Recipe, parameters: Named) -> Sgd:
    """The optimiser of a recipe."""
    options = {"momentum": recipe.momentum, "weight_decay": recipe.weight_decay}
    if recipe.optimiser == "sgd":
        return Sgd(parameters, **options)
    return Muon(parameters, kernel_factor=recipe.kernel_rate / recipe.learning_rate, **options)


def _stack(kernels: Sequence[Tensor], filters: int) -> tuple[Tensor, dict[int, Tensor]]:
    """Matrices (k, filters, columns), in bf16 on a GPU, and the part (o, h, w, i) of them for each kernel by its place.

    The kernels of so many filters are brought to orthogonal matrices in one go. Columns of zeros make them equally wide
    and change no singular value.
    """
    alike = {i: kernel[0].numel() for i, kernel in enumerate(kernels) if len(kernel) == filters}
    first = kernels[next(iter(alike))]
    dtype = torch.bfloat16 if first.is_cuda else first.dtype
    matrices = first.new_zeros(len(alike), filters, max(alike.values()), dtype=dtype)
    widths = zip(matrices, alike.items(), strict=True)
    return matrices, {i: _unfolded(matrix[:, :width], kernels[i]) for matrix, (i, width) in widths}


def _unfolded(matrix: Tensor, kernel: Tensor) -> Tensor:
    """A view (o, h, w, i) of a matrix (o, h w i) of a kernel (o, i, h, w)."""
    _, inputs, height, width = kernel.shape
    return matrix.unflatten(1, (height, width, inputs))


def orthogonal(matrices: Tensor) -> Tensor:
    """Of matrices (k, m, n) of length 1 those with the same singular vectors and singular values of about one.

    Newton and Schulz's way: an odd polynomial of a matrix is the polynomial of its singular values, and this one brings
    all that are not tiny beside the largest between 0.6 and 1.25. Several rounds are taken on the small square ``x x'``
    before the matrix itself is multiplied, which for kernels is half of the arithmetic.
    """
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    for rounds in _ROUNDS:
        x = _factor(x @ x.mT, rounds) @ x
    return x.mT if tall else x


def _factor(square: Tensor, rounds: int) -> Tensor:
    """By what (k, m, m) so many rounds multiply matrices with the squares ``x x'`` (k, m, m)."""
    first, third, fifth = _POLYNOMIAL
    rest = torch.baddbmm(square, square, square, beta=third, alpha=fifth)  # of the polynomial, beside its constant
    factor = first * torch.eye(square.shape[1], dtype=square.dtype, device=square.device) + rest
    for _ in range(rounds - 1):
        square = torch.baddbmm(square, rest, square, beta=first)
        square = torch.baddbmm(square, square, rest, beta=first)
        rest = torch.baddbmm(square, square, square, beta=third, alpha=fifth)
        factor = torch.baddbmm(factor, rest, factor, beta=first)
    return factor


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
