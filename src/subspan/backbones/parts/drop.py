"""Dropout and DropBlock on hashed noise: safe under compilation and CUDA graphs, repeatable after a resume.

Both read one clock that the network owns: how many training steps it has taken (for the ramp of DropBlock) and the key
of its noise. Neither synchronises with the host. A pass through the network only reads the clock; who trains it ticks
before each step. (A compiled backward pass may draw a mask again instead of keeping it: had the forward pass moved the
clock, it would draw another one.)

Reference: Ghiasi, Lin and Le, DropBlock, NeurIPS 2018; the ramp and the scaling follow Tian et al., ECCV 2020 (rfs).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from subspan.backbones.parts.noise import fold, make_key, uniform_like


class Clock(nn.Module):
    """Counts training steps and keys the noise of one network; its two buffers travel with the weights."""

    steps: Tensor  # (): int32
    key: Tensor  # (): int32

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.int32))
        self.register_buffer("key", make_key(0))

    def reset_parameters(self) -> None:
        """Where a training begins."""
        self.steps.zero_()
        self.reseed(0)

    def tick(self) -> None:
        """One more training step."""
        self.steps.add_(1)

    def reseed(self, seed: int) -> None:
        """Key the noise by ``seed``, in place."""
        self.key.copy_(make_key(seed, self.key.device))

    def noise_key(self, stream: int) -> Tensor:
        """The int32 key () of this step for one layer."""
        return fold(fold(self.key, self.steps), stream)


class Dropout(nn.Module):
    """Zero each value with probability ``rate`` and rescale the rest, in training mode."""

    def __init__(self, rate: float, stream: int) -> None:
        super().__init__()
        self.rate, self.stream = rate, stream

    def forward(self, x: Tensor, clock: Clock) -> Tensor:
        """(n, c, h, w) to the same shape."""
        return self.drop(x, clock) if self.training and self.rate > 0 else x

    def drop(self, x: Tensor, clock: Clock) -> Tensor:
        """(n, c, h, w) to the same shape, in training mode."""
        keep = uniform_like(clock.noise_key(self.stream), x) >= self.rate
        return x * (keep.to(x.dtype) * (1.0 / (1.0 - self.rate)))


class DropBlock(Dropout):
    """Zero square blocks of each channel, at a rate that grows linearly to ``rate`` over ``ramp_steps`` training steps.

    The block shrinks to the map where the map is smaller.
    """

    def __init__(self, rate: float, stream: int, block_size: int, ramp_steps: int) -> None:
        super().__init__(rate, stream)
        self.block_size, self.ramp_steps = block_size, ramp_steps

    def drop(self, x: Tensor, clock: Clock) -> Tensor:
        height, width = x.shape[2:]
        block = min(self.block_size, height, width)
        rows, columns = height - block + 1, width - block + 1
        ramp = (clock.steps.to(torch.float32) / self.ramp_steps).clamp(max=1.0)
        seed_rate = ramp * (self.rate / block**2 * height * width / (rows * columns))
        seeds = x.new_empty((*x.shape[:2], rows, columns), dtype=torch.float32)
        dropped = (uniform_like(clock.noise_key(self.stream), seeds) < seed_rate).to(x.dtype)
        if block > 1:
            dropped = functional.max_pool2d(functional.pad(dropped, (block - 1,) * 4), block, stride=1)
        keep = 1 - dropped
        scale = keep.numel() / keep.sum(dtype=torch.float32).clamp(min=1.0)
        return x * keep * scale.to(x.dtype)
