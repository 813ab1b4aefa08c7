"""ResNet-12 and ResNet-18 of Tian et al. (Rethinking few-shot image classification, ECCV 2020), as the paper uses them.

Blocks of three 3x3 convolutions, leaky ReLU 0.1, a 2x2 max-pool at the end of each stage's first block, channels
64 / 160 / 320 / 640, one global average. Parameter names are those of the authors' repository. Departures:
squeeze-and-excitation, where asked for, is in every block (theirs leaves out the first block of a two-block stage by an
argument's position), the ramp of DropBlock counts training steps only, and pools may be blurred.
"""

from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from subspan.backbones.parts.blocks import Block, Map, ResidualNetwork
from subspan.backbones.parts.drop import Clock, DropBlock, Dropout
from subspan.backbones.parts.initialise import materialise
from subspan.backbones.registry import register_backbone

Drop = Literal["paper", "full", "none"]

CHANNELS = (64, 160, 320, 640)
_activation = partial(functional.leaky_relu, negative_slope=0.1)


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


_POOLS: dict[str, Map] = {"max": largest, "blurred": largest_blurred}


def _network(
    blocks: tuple[int, int, int, int],
    dropblock: Drop,
    generator: torch.Generator,
    *,
    width: float = 1.0,
    se: bool = False,
    drop_rate: float = 0.1,
    drop_ramp: int = 40_000,
    pool: str = "max",
) -> ResidualNetwork:
    for name, value, known in (("pool", pool, _POOLS), ("dropblock", dropblock, get_args(Drop))):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")

    def build() -> ResidualNetwork:
        stages, inputs, stream = [], 3, 0
        for stage, (count, full) in enumerate(zip(blocks, CHANNELS, strict=True), start=1):
            layer, outputs = [], max(1, round(full * width))
            for place in range(count):
                # Blocks (size 1 or 5) at the end of stages 3 and 4, plain dropout after every other block.
                if stage >= 3 and place == count - 1:
                    drop = DropBlock(drop_rate, stream, 5 if dropblock == "full" else 1, drop_ramp)
                else:
                    drop = Dropout(drop_rate, stream)
                halving, drop = _POOLS[pool] if place == 0 else None, None if dropblock == "none" else drop
                layer.append(Block(inputs, outputs, 3, _activation, pool=halving, se=se, drop=drop))
                inputs, stream = outputs, stream + 1
            stages.append(layer)
        return ResidualNetwork({}, stages, Clock())

    return materialise(build, generator, "leaky_relu")


@register_backbone("resnet12-tian")
def resnet12_tian(*, generator: torch.Generator, dropblock: Drop = "full", **options: Any) -> ResidualNetwork:
    """ResNet-12: one block per stage. ``dropblock``: block size 5 (full), 1 (paper) or none."""
    return _network((1, 1, 1, 1), dropblock, generator, **options)


@register_backbone("resnet18-tian")
def resnet18_tian(*, generator: torch.Generator, dropblock: Drop = "paper", **options: Any) -> ResidualNetwork:
    """ResNet-18: 1-1-2-2 blocks. ``dropblock``: what the paper's runs left (paper), size 5 (full) or none."""
    return _network((1, 1, 2, 2), dropblock, generator, **options)
