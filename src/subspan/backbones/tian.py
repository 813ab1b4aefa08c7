"""ResNet-12 and ResNet-18 of Tian et al. (Rethinking few-shot image classification, ECCV 2020), as the paper uses them.

Blocks of three 3x3 convolutions, leaky ReLU 0.1, a 2x2 max-pool at the end of each stage's first block, channels
64 / 160 / 320 / 640, one global average. Parameter names are those of the authors' repository
(``layer1.0.conv1.weight``), so that their checkpoints load. Departures: squeeze-and-excitation, where asked for, is in
every block (theirs leaves out the first block of a two-block stage by an argument's position), the ramp of DropBlock
counts training steps only, and pools may be blurred.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from subspan.backbones.blocks import Norm, SqueezeExcitation, conv, normalise
from subspan.backbones.drop import Clock, DropBlock, Dropout
from subspan.backbones.initialise import materialise
from subspan.backbones.registry import register_backbone

Drop = Literal["paper", "full", "none"]
Pool = Literal["max", "blurred"]

CHANNELS = (64, 160, 320, 640)
_SLOPE = 0.1


def largest(x: Tensor) -> Tensor:
    """The largest of every 2x2 places: (n, c, h, w) to (n, c, h // 2, w // 2)."""
    return functional.max_pool2d(x, 2)


def largest_blurred(x: Tensor) -> Tensor:
    """The largest of 2x2 at every place, then means of 3x3 at every second one; shapes as ``largest``.

    A plain pool answers to a shift of one pixel with other values; blurred before they are thinned out they change
    little (Zhang, Making convolutional networks shift-invariant again, ICML 2019).
    """
    everywhere = functional.max_pool2d(x, 2, stride=1)
    if everywhere.is_cuda and everywhere.requires_grad and not torch.compiler.is_compiling():
        everywhere = everywhere.contiguous()  # with channels last the gradient there is wrong (PyTorch issue 188344)
    return functional.avg_pool2d(everywhere, 3, stride=2, padding=1, count_include_pad=False)


_POOLS: Mapping[str, Callable[[Tensor], Tensor]] = {"max": largest, "blurred": largest_blurred}


class Block(nn.Module):
    """Three convolutions and a shortcut, then an optional pool and an optional drop."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        *,
        pool: Callable[[Tensor], Tensor] | None,
        norm: str,
        se: bool,
        drop: Dropout | DropBlock | None,
    ) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3), normalise(norm, outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), normalise(norm, outputs)
        self.conv3, self.bn3 = conv(outputs, outputs, 3), normalise(norm, outputs)
        self.se = SqueezeExcitation(outputs) if se else None
        needs_map = pool is not None or inputs != outputs
        self.downsample = nn.Sequential(conv(inputs, outputs, 1), normalise(norm, outputs)) if needs_map else None
        self.pool, self.drop = pool, drop

    def forward(self, x: Tensor, clock: Clock) -> Tensor:
        """(n, c_in, h, w) to (n, c_out, h, w), or half the height and width with a pool."""
        out = functional.leaky_relu(self.bn1(self.conv1(x)), _SLOPE)
        out = functional.leaky_relu(self.bn2(self.conv2(out)), _SLOPE)
        out = self.bn3(self.conv3(out))
        if self.se is not None:
            out = self.se(out)
        out = functional.leaky_relu(out + (x if self.downsample is None else self.downsample(x)), _SLOPE)
        out = out if self.pool is None else self.pool(out)
        return out if self.drop is None else self.drop(out, clock)


class TianResNet(nn.Module):
    """Images (n, 3, h, w) to features (n, d), d = 640 at full width; h and w at least 16.

    What is dropped changes with ``clock.tick()``, not with the call.
    """

    def __init__(
        self,
        blocks: tuple[int, int, int, int],
        dropblock: Drop,
        *,
        width: float = 1.0,
        norm: Norm = "batch",
        se: bool = False,
        drop_rate: float = 0.1,
        drop_ramp: int = 40_000,
        pool: Pool = "max",
    ) -> None:
        super().__init__()
        if pool not in _POOLS:
            raise ValueError(f"pool must be one of {', '.join(_POOLS)}, got {pool!r}")
        if dropblock not in get_args(Drop):
            raise ValueError(f"dropblock must be one of {', '.join(get_args(Drop))}, got {dropblock!r}")
        if not 0 <= drop_rate < 1:
            raise ValueError(f"drop_rate must lie in [0, 1), got {drop_rate}")
        self.clock = Clock()
        channels = [max(1, round(full * width)) for full in CHANNELS]
        block_size = 5 if dropblock == "full" else 1
        inputs, stream = 3, 0
        for stage, (count, outputs) in enumerate(zip(blocks, channels, strict=True), start=1):
            layer = nn.ModuleList()
            for place in range(count):
                drop: Dropout | DropBlock | None
                # Blocks (size 1 or 5) at the end of stages 3 and 4, plain dropout after every other block.
                if dropblock == "none":
                    drop = None
                elif stage >= 3 and place == count - 1:
                    drop = DropBlock(drop_rate, stream, block_size, drop_ramp)
                else:
                    drop = Dropout(drop_rate, stream)
                halving = _POOLS[pool] if place == 0 else None
                layer.append(Block(inputs, outputs, pool=halving, norm=norm, se=se, drop=drop))
                inputs, stream = outputs, stream + 1
            self.add_module(f"layer{stage}", layer)
        self.feature_dim = inputs

    def stages(self) -> list[nn.Module]:
        """The four stages, each a list of blocks."""
        return [self.get_submodule(f"layer{stage}") for stage in range(1, len(CHANNELS) + 1)]

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to (n, d)."""
        x = images
        for stage in self.stages():
            for block in stage.children():
                x = block(x, self.clock)
        return x.mean((2, 3))


@register_backbone("resnet12-tian")
def resnet12_tian(*, generator: torch.Generator, dropblock: Drop = "full", **options: Any) -> TianResNet:
    """ResNet-12: one block per stage. ``dropblock``: block size 5 (full), 1 (paper) or none."""
    return materialise(lambda: TianResNet((1, 1, 1, 1), dropblock, **options), generator, "leaky_relu")


@register_backbone("resnet18-tian")
def resnet18_tian(*, generator: torch.Generator, dropblock: Drop = "paper", **options: Any) -> TianResNet:
    """ResNet-18: 1-1-2-2 blocks. ``dropblock``: what the paper's runs left (paper), size 5 (full) or none."""
    return materialise(lambda: TianResNet((1, 1, 2, 2), dropblock, **options), generator, "leaky_relu")
