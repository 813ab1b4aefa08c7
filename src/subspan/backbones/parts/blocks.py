"""What residual networks are made of: convolution, normalisation, squeeze-and-excitation, blocks and their stages."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from subspan.backbones.parts.drop import Clock, Dropout

Map = Callable[[Tensor], Tensor]


class Convolution(nn.Conv2d):
    """A convolution that keeps the map's size at stride 1, without bias; safe with strides on a CPU."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)

    def forward(self, input: Tensor) -> Tensor:
        """(n, c_in, h, w) to (n, c_out, h', w')."""
        if self.kernel_size == (1, 1) and self.stride != (1, 1) and input.device.type == "cpu":
            # The same numbers, place by place. Without AVX-512, oneDNN's backward pass of a 1x1 kernel with a stride
            # writes past its memory where channels come last and are fewer than eight (torch 2.13).
            down, right = self.stride
            return functional.conv2d(input[..., ::down, ::right], self.weight)
        return super().forward(input)


class BatchNorm(nn.BatchNorm2d):
    """Batch normalisation that takes its statistics from sums where it is compiled.

    PyTorch merges means and deviations step by step (Welford): exact for any values, and slow in compiled kernels.
    """

    def forward(self, input: Tensor) -> Tensor:
        """(n, c, h, w) to the same shape."""
        return self.by_sums(input) if self.training and torch.compiler.is_compiling() else super().forward(input)

    def by_sums(self, input: Tensor) -> Tensor:
        """The same in training, in one pass without divisions, from sums of values and of their squares.

        In float32 these are as good where means are not many deviations wide.
        """
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        count = input.numel() // input.shape[1]
        with torch.autocast(input.device.type, enabled=False):
            values = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
            mean, squares = values.mean((0, 2, 3)), values.square().mean((0, 2, 3))
            variance = (squares - mean.square()).clamp(min=0)
            with torch.no_grad():
                self.num_batches_tracked.add_(1)
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (count / (count - 1)), self.momentum)
            scale = self.weight * torch.rsqrt(variance + self.eps)
            shift = self.bias - mean * scale
            return (values * scale[:, None, None] + shift[:, None, None]).to(input.dtype)


class SqueezeExcitation(nn.Module):
    """Channel gates from the globally pooled map (Hu, Shen and Sun, CVPR 2018)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        hidden = max(1, channels // 4)
        self.fc = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        """(n, c, h, w) to the same shape."""
        gates = self.fc(x.mean((2, 3)))
        return x * gates[:, :, None, None]


class Block(nn.Module):
    """Some 3x3 convolutions and a shortcut, then an optional pool and an optional drop."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernels: int,
        activation: Map,
        *,
        stride: int = 1,
        pool: Map | None = None,
        se: bool = False,
        drop: Dropout | None = None,
    ) -> None:
        super().__init__()
        for i in range(1, kernels + 1):
            first = i == 1
            self.add_module(f"conv{i}", Convolution(inputs if first else outputs, outputs, 3, stride if first else 1))
            self.add_module(f"bn{i}", BatchNorm(outputs))
        self.se = SqueezeExcitation(outputs) if se else None
        shortcut = nn.Sequential(Convolution(inputs, outputs, 1, stride), BatchNorm(outputs))
        self.downsample = None if stride == 1 and pool is None and inputs == outputs else shortcut
        self.kernels, self.activation, self.pool, self.drop, self.outputs = kernels, activation, pool, drop, outputs

    def forward(self, x: Tensor, clock: Clock | None = None) -> Tensor:
        """(n, c_in, h, w) to (n, c_out, h', w'), smaller by a stride or a pool."""
        out = x
        for i in range(1, self.kernels + 1):
            out = self.activation(out) if i > 1 else out
            out = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(out))
        out = out if self.se is None else self.se(out)
        out = self.activation(out + (x if self.downsample is None else self.downsample(x)))
        out = out if self.pool is None else self.pool(out)
        return out if self.drop is None else self.drop(out, clock)


class ResidualNetwork(nn.Module):
    """Images (n, 3, h, w) to features (n, d): a stem, if there is one, stages of blocks, one global average.

    What is dropped changes with ``clock.tick()``, not with the call.
    """

    def __init__(self, stem: Mapping[str, nn.Module], stages: Sequence[Sequence[Block]], clock: Clock | None) -> None:
        super().__init__()
        layers = {f"layer{i}": nn.ModuleList(blocks) for i, blocks in enumerate(stages, start=1)}
        for name, part in (*stem.items(), *layers.items()):
            self.add_module(name, part)
        self.clock, self._stem, self._layers = clock, tuple(stem), tuple(layers)
        self.feature_dim = stages[-1][-1].outputs

    def stem(self) -> list[nn.Module]:
        """What comes before the stages, one part after the other."""
        return [self.get_submodule(name) for name in self._stem]

    def stages(self) -> list[list[nn.Module]]:
        """The blocks of each stage."""
        return [[*self.get_submodule(name).children()] for name in self._layers]

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to (n, d)."""
        x = images
        for part in self.stem():
            x = part(x)
        for stage in self.stages():
            for block in stage:
                x = block(x, self.clock)
        return x.mean((2, 3))
