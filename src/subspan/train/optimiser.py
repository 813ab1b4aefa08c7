"""Optimisers on static buffers, their rate read from a tensor, so that a CUDA graph can hold an update.

SGD with momentum as one fused update, and Muon for the kernels of convolutions with SGD for the rest.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

KERNEL_MOMENTUM = 0.95  # of Muon
_POLYNOMIAL = 3.4445, -4.7750, 2.0315  # Jordan et al.'s: five rounds bring any singular value above 0.01 near 1
_ROUNDS = 3, 2  # between two products with the whole matrix; all five at once are too many for bf16


class Sgd:
    """Momentum SGD over named parameters; ``momenta`` are allocated at once and start at zero.

    A zero start gives the usual first step (velocity = gradient), so a resumed run and a fresh one share one code path.
    """

    def __init__(self, parameters: Iterable[tuple[str, nn.Parameter]], *, momentum: float, weight_decay: float) -> None:
        named = {name: p for name, p in parameters if p.requires_grad}
        self.momentum, self.weight_decay = momentum, weight_decay
        self.momenta = {name: torch.zeros_like(p) for name, p in named.items()}
        self._parameters: list[Tensor] = list(named.values())

    def clear(self) -> None:
        """Forget gradients, so that the next backward pass allocates its own."""
        for p in self._parameters:
            p.grad = None

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """One update with rate ()."""
        sgd(
            self._parameters,
            _gradients(self._parameters),
            list(self.momenta.values()),
            fused=True,
            weight_decay=self.weight_decay,
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
        self._shares = [min(shape) ** -0.5 for shape in shapes]  # the length of an orthogonal matrix is a square root
        self._stacks = [_Stack.of(self._kernels, rows) for rows in dict.fromkeys(rows for rows, _ in shapes)]

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
        # Means in place of sums: what follows asks for the direction alone.
        torch._foreach_lerp_(self._momenta, gradients, 1 - KERNEL_MOMENTUM)
        ahead = torch._foreach_lerp(gradients, self._momenta, KERNEL_MOMENTUM)
        lengths = torch._foreach_norm(kernels)
        ways = torch._foreach_mul(torch._foreach_mul(lengths, self._shares), rate * self._factor)
        for stack in self._stacks:
            for i, direction in stack.orthogonal(ahead):
                kernels[i].addcmul_(direction, ways[i], value=-1)
        torch._foreach_mul_(kernels, torch._foreach_div(lengths, torch._foreach_norm(kernels)))


@dataclass(frozen=True, eq=False)
class _Stack:
    """Kernels of equally many filters, which are brought to orthogonal matrices in one go.

    Columns of zeros make them equally wide and change no singular value.
    """

    matrices: Tensor  # (k, filters, columns)
    members: list[tuple[int, Tensor]]  # place among all kernels, and its part of the matrices (o, h, w, i)

    @classmethod
    def of(cls, kernels: Sequence[Tensor], filters: int) -> "_Stack":
        """The stack of those among all kernels that have so many filters; on a GPU in bf16."""
        alike = [i for i, kernel in enumerate(kernels) if len(kernel) == filters]
        widths = [kernels[i][0].numel() for i in alike]
        dtype = torch.bfloat16 if kernels[alike[0]].is_cuda else kernels[alike[0]].dtype
        matrices = kernels[alike[0]].new_zeros(len(alike), filters, max(widths), dtype=dtype)
        parts = [matrix[:, :width] for matrix, width in zip(matrices, widths, strict=True)]
        return cls(matrices, [(i, _unfolded(part, kernels[i])) for i, part in zip(alike, parts, strict=True)])

    def orthogonal(self, values: Sequence[Tensor]) -> Iterator[tuple[int, Tensor]]:
        """The orthogonal matrices of its kernels' values, each as (o, i, h, w) beside the place of its kernel."""
        lengths = torch._foreach_clamp_min(torch._foreach_norm([values[i] for i, _ in self.members]), 1e-12)
        for (i, part), length in zip(self.members, lengths, strict=True):
            torch.div(values[i].permute(0, 2, 3, 1), length, out=part)  # channels last, as kernels lie on a GPU
        found = orthogonal(self.matrices)
        for (i, part), matrix in zip(self.members, found, strict=True):
            yield i, _unfolded(matrix[:, : part[0].numel()], values[i]).permute(0, 3, 1, 2)


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
