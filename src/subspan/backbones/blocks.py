"""Pieces that the residual networks share: convolution, normalisation, squeeze-and-excitation, mixing of maps.

Convolutions and batch normalisations have several ways to compute the same numbers, to rounding, which differ in speed.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

Norm = Literal["batch", "group", "none"]
Statistics = Literal["plain", "sums", "fused"]

STAGES = 4  # of every residual network here


class Mixing(NamedTuple):
    """Which images of a batch are blended, and how, after each stage (manifold mixup; Verma et al., ICML 2019)."""

    partner: Tensor  # (n,): the image blended into each
    shares: Tensor  # (STAGES,): what stays of each image's own maps after each stage; 1 leaves them alone

    def after(self, stage: int, x: Tensor) -> Tensor:
        """Maps (n, c, h, w) after ``stage``, counted from 0, with those of their partners."""
        return torch.lerp(x[self.partner], x, self.shares[stage].to(x.dtype))


class Convolution(nn.Conv2d):
    """A convolution that may be computed in other ways, which differ in speed.

    With more input channels than it has, all zero: tensor cores take channels by eights, and three may be slower than
    eight. Or, in training, by the operations of fused.py where those of cuDNN are slow.
    """

    computed_inputs = 0
    fused = False

    def forward(self, input: Tensor) -> Tensor:
        """(n, c_in, h, w) to (n, c_out, h, w)."""
        operation = self._operation(input) if self.fused and self.training else None
        if operation is not None:
            kind, device = self.weight.dtype, input.device.type
            kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else kind
            return operation(input, self.weight.to(kind))
        weight, more = self.weight, self.computed_inputs - self.in_channels
        if more > 0:
            padding = (0, 0, 0, 0, 0, more)
            input, weight = functional.pad(input, padding), functional.pad(weight, padding)
        if self.kernel_size == (1, 1) and self.stride != (1, 1) and input.device.type == "cpu":
            # The same numbers, place by place. Without AVX-512, oneDNN's backward pass of a 1x1 kernel with a stride
            # writes past its memory where channels come last and are fewer than eight (torch 2.13).
            down, right = self.stride
            return functional.conv2d(input[..., ::down, ::right], weight, self.bias)
        return self._conv_forward(input, weight, self.bias)

    def _operation(self, input: Tensor) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Which operation of fused.py is faster here, if one is; none where padding is asked for."""
        if self.stride != (1, 1) or self.bias is not None or self.kernel_size[0] > 3 or self.computed_inputs:
            return None
        if self.in_channels <= 4 and not input.requires_grad:
            return torch.ops.subspan.convolve_thin
        uneven = self.in_channels % 64 and self.out_channels % 64
        return torch.ops.subspan.convolve if uneven and self.kernel_size[0] == 3 else None


def pad_inputs(network: nn.Module, channels: int) -> None:
    """Let every convolution of fewer input channels be computed with this many."""
    for part in network.modules():
        if isinstance(part, Convolution):
            part.computed_inputs = channels


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation with several ways to take its statistics in training.

    ``plain``: PyTorch's, which merges means and deviations step by step (Welford): exact for any values, and slow in
    compiled kernels. ``sums``: from sums of values and of their squares, one pass without divisions; in float32 they
    are as good where means are not many deviations wide. ``fused``: the same sums, in kernels of our own (fused.py).
    """

    statistics: Statistics = "plain"

    @property
    def fuses(self) -> bool:
        """Whether it is computed by kernels of our own now."""
        return self.statistics == "fused" and self.training and self._tracks

    @property
    def _tracks(self) -> bool:
        return self.track_running_stats and self.momentum is not None

    def forward(self, input: Tensor) -> Tensor:
        """(n, c, h, w) to the same shape."""
        if self.fuses:
            return self.activated(input, 1.0)
        if self.statistics == "plain" or not (self.training and self._tracks):
            return super().forward(input)
        count = self.count(input)
        with torch.autocast(input.device.type, enabled=False):
            values = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
            mean, squares = values.mean((0, 2, 3)), values.square().mean((0, 2, 3))
            variance = self._track(mean, squares, count)
            scale = self.weight * torch.rsqrt(variance + self.eps)
            shift = self.bias - mean * scale
            return (values * scale[:, None, None] + shift[:, None, None]).to(input.dtype)

    def activated(self, input: Tensor, slope: float) -> Tensor:
        """Leaky ReLU of the normalised maps (n, c, h, w)."""
        if not self.fuses:
            return functional.leaky_relu(self(input), slope)
        count = self.count(input)
        out, totals = torch.ops.subspan.normalise(input, self.weight, self.bias, self.eps, slope)
        self.track_totals(totals, count)
        return out

    def count(self, input: Tensor) -> int:
        """How many values each channel of maps (n, c, h, w) has; one is refused."""
        self._check_input_dim(input)
        count = input.numel() // input.shape[1]
        if count < 2:
            raise ValueError(f"batch statistics need more than one value of each channel, got {tuple(input.shape)}")
        return count

    def track_totals(self, totals: Tensor, count: int) -> None:
        """Move the running statistics towards those of a batch, from its sums of values and squares (2, c)."""
        kept = self.running_mean, self.running_var, self.num_batches_tracked
        torch.ops.subspan.track(totals.detach(), *kept, count, self.momentum)

    def _track(self, mean: Tensor, squares: Tensor, count: int) -> Tensor:
        """Move the running statistics towards means of values and squares (c,) of so many; returns the variance."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        variance = (squares - mean.square()).clamp(min=0)
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
        return variance


def activated(norm: nn.Module, maps: Tensor, slope: float) -> Tensor:
    """Leaky ReLU of the normalised maps (n, c, h, w), in one pass where that is possible."""
    if isinstance(norm, BatchNorm):
        return norm.activated(maps, slope)
    return functional.leaky_relu(norm(maps), slope)


def added_and_pooled(norm: BatchNorm, maps: Tensor, other_norm: BatchNorm, others: Tensor, slope: float) -> Tensor:
    """Both maps (n, c, h, w) normalised and added, leaky ReLU, the largest of every 2x2; for norms that ``fuses``."""
    count = norm.count(maps)
    form = norm.weight, norm.bias, others, other_norm.weight, other_norm.bias, norm.eps, slope
    out, totals = torch.ops.subspan.add_and_pool(maps, *form)
    norm.track_totals(totals[:2], count)
    other_norm.track_totals(totals[2:], count)
    return out


def use_statistics(network: nn.Module, statistics: Statistics) -> None:
    """Choose how every batch normalisation gets its statistics in training.

    ``fused``, which needs Triton, also lets convolutions be computed by the operations of fused.py that suit them.
    """
    if statistics == "fused":
        from subspan.backbones import fused as _fused  # noqa: F401 (registers the operations)
    for part in network.modules():
        if isinstance(part, BatchNorm):
            part.statistics = statistics
        if isinstance(part, Convolution):
            part.fused = statistics == "fused"


def conv(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that keeps the map's size at stride 1, without bias."""
    return Convolution(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


def normalise(kind: str, channels: int) -> nn.Module:
    """Batch statistics (the papers'), groups of channels of one image, or nothing."""
    if kind == "batch":
        return BatchNorm(channels)
    if kind == "group":
        return nn.GroupNorm(math.gcd(channels, 8), channels)
    if kind == "none":
        return nn.Identity()
    raise ValueError(f"norm must be 'batch', 'group' or 'none', got {kind!r}")


class SqueezeExcitation(nn.Module):
    """Channel gates from the globally pooled map (Hu, Shen and Sun, CVPR 2018)."""

    def __init__(self, channels: int, reduction: int = 4) -> None:
        super().__init__()
        hidden = max(1, channels // reduction)
        self.fc = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) to the same shape."""
        gates = self.fc(x.mean((2, 3)))
        return x * gates[:, :, None, None]
