"""Pieces that the residual networks share: convolution, normalisation, squeeze-and-excitation."""

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Norm = Literal["batch", "group", "none"]
Statistics = Literal["plain", "sums"]


class Convolution(nn.Conv2d):
    """A convolution that is safe with strides on a CPU."""

    def forward(self, input: Tensor) -> Tensor:
        """(n, c_in, h, w) to (n, c_out, h', w')."""
        if self.kernel_size == (1, 1) and self.stride != (1, 1) and input.device.type == "cpu":
            # The same numbers, place by place. Without AVX-512, oneDNN's backward pass of a 1x1 kernel with a stride
            # writes past its memory where channels come last and are fewer than eight (torch 2.13).
            down, right = self.stride
            return functional.conv2d(input[..., ::down, ::right], self.weight, self.bias)
        return super().forward(input)


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation with two ways to take its statistics in training.

    ``plain``: PyTorch's, which merges means and deviations step by step (Welford): exact for any values, and slow in
    compiled kernels. ``sums``: from sums of values and of their squares, one pass without divisions; in float32 they
    are as good where means are not many deviations wide.
    """

    statistics: Statistics = "plain"

    def forward(self, input: Tensor) -> Tensor:
        """(n, c, h, w) to the same shape."""
        if self.statistics == "plain" or not (self.training and self.track_running_stats):
            return super().forward(input)
        self._check_input_dim(input)
        count = input.numel() // input.shape[1]
        if count < 2:
            raise ValueError(f"batch statistics need more than one value of each channel, got {tuple(input.shape)}")
        with torch.autocast(input.device.type, enabled=False):
            values = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
            mean, squares = values.mean((0, 2, 3)), values.square().mean((0, 2, 3))
            variance = self._track(mean, squares, count)
            scale = self.weight * torch.rsqrt(variance + self.eps)
            shift = self.bias - mean * scale
            return (values * scale[:, None, None] + shift[:, None, None]).to(input.dtype)

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


def use_statistics(network: nn.Module, statistics: Statistics) -> None:
    """Choose how every batch normalisation gets its statistics in training."""
    for part in network.modules():
        if isinstance(part, BatchNorm):
            part.statistics = statistics


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
