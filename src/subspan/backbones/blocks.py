"""Pieces that the residual networks share: convolution, normalisation, squeeze-and-excitation, mixing of maps."""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

Norm = Literal["batch", "group", "none"]

STAGES = 4  # of every residual network here


class Mixing(NamedTuple):
    """Which images of a batch are blended, and how, after each stage (manifold mixup; Verma et al., ICML 2019)."""

    partner: Tensor  # (n,): the image blended into each
    shares: Tensor  # (STAGES,): what stays of each image's own maps after each stage; 1 leaves them alone

    def after(self, stage: int, x: Tensor) -> Tensor:
        """Maps (n, c, h, w) after ``stage``, counted from 0, with those of their partners."""
        return torch.lerp(x[self.partner], x, self.shares[stage].to(x.dtype))


class Convolution(nn.Conv2d):
    """A convolution that may be computed with more input channels than it has, all zero: the same numbers.

    Tensor cores take channels by eights; three of them may be slower than eight.
    """

    computed_inputs = 0

    def forward(self, input: Tensor) -> Tensor:
        """(n, c_in, h, w) to (n, c_out, h, w)."""
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


def pad_inputs(network: nn.Module, channels: int) -> None:
    """Let every convolution of fewer input channels be computed with this many."""
    for part in network.modules():
        if isinstance(part, Convolution):
            part.computed_inputs = channels


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation that may take its statistics from sums of values and of their squares: the same numbers.

    The usual way merges means and deviations step by step (Welford), exact for any values and slow in compiled kernels.
    Sums take one pass without divisions; in float32 they are as good where means are not many deviations wide.
    """

    by_sums = False

    def forward(self, input: Tensor) -> Tensor:
        """(n, c, h, w) to the same shape."""
        if not (self.by_sums and self.training and self.track_running_stats) or self.momentum is None:
            return super().forward(input)
        self._check_input_dim(input)
        count = input.numel() // input.shape[1]
        if count < 2:
            raise ValueError(f"batch statistics need more than one value of each channel, got {tuple(input.shape)}")
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        with torch.autocast(input.device.type, enabled=False):
            values = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
            mean = values.mean((0, 2, 3))
            variance = (values.square().mean((0, 2, 3)) - mean.square()).clamp(min=0)
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
            scale = self.weight * torch.rsqrt(variance + self.eps)
            shift = self.bias - mean * scale
            return (values * scale[:, None, None] + shift[:, None, None]).to(input.dtype)


def use_sums(network: nn.Module, by_sums: bool) -> None:
    """Choose how every batch normalisation gets its statistics in training."""
    for part in network.modules():
        if isinstance(part, BatchNorm):
            part.by_sums = by_sums


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
