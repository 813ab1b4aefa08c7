"""The ResNet-18 of He et al. (Deep residual learning, CVPR 2016), 512 features.

The paper compares with it but its repository does not hold it, so the standard form is the default: a 7x7 stem of
stride 2 and a 3x3 max-pool of stride 2, which leave 3x3 maps of an 84-pixel image. ``stem="small"`` (3x3, stride 1, no
pool) is the usual form for small images. Parameter names are torchvision's.
"""

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from subspan.backbones.blocks import Norm, SqueezeExcitation, conv, normalise
from subspan.backbones.initialise import materialise
from subspan.backbones.registry import register_backbone

Stem = Literal["standard", "small"]

CHANNELS = (64, 128, 256, 512)


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, *, stride: int, norm: str, se: bool) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, outputs, 3, stride), normalise(norm, outputs)
        self.conv2, self.bn2 = conv(outputs, outputs, 3), normalise(norm, outputs)
        self.se = SqueezeExcitation(outputs) if se else None
        needs_map = stride != 1 or inputs != outputs
        shortcut = nn.Sequential(conv(inputs, outputs, 1, stride), normalise(norm, outputs)) if needs_map else None
        self.downsample = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """(n, c_in, h, w) to (n, c_out, h / stride, w / stride)."""
        out = functional.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.se is not None:
            out = self.se(out)
        return functional.relu(out + (x if self.downsample is None else self.downsample(x)))


class HeResNet(nn.Module):
    """Images (n, 3, h, w) to features (n, d), d = 512 at full width."""

    def __init__(self, *, width: float = 1.0, norm: Norm = "batch", se: bool = False, stem: Stem = "standard") -> None:
        super().__init__()
        if stem not in get_args(Stem):
            raise ValueError(f"stem must be one of {', '.join(get_args(Stem))}, got {stem!r}")
        channels = [max(1, round(full * width)) for full in CHANNELS]
        self.stem = stem
        self.conv1 = conv(3, channels[0], 7, stride=2) if stem == "standard" else conv(3, channels[0], 3)
        self.bn1 = normalise(norm, channels[0])
        inputs = channels[0]
        for stage, outputs in enumerate(channels, start=1):
            first = Block(inputs, outputs, stride=1 if stage == 1 else 2, norm=norm, se=se)
            second = Block(outputs, outputs, stride=1, norm=norm, se=se)
            self.add_module(f"layer{stage}", nn.Sequential(first, second))
            inputs = outputs
        self.feature_dim = inputs

    def stages(self) -> list[nn.Module]:
        """The four stages, each a sequence of units."""
        return [self.get_submodule(f"layer{stage}") for stage in range(1, len(CHANNELS) + 1)]

    def stem_part(self) -> nn.Sequential:
        """What comes before the stages, images (n, 3, h, w) to maps, with the network's own weights."""
        pool = [nn.MaxPool2d(3, stride=2, padding=1)] if self.stem == "standard" else []
        return nn.Sequential(self.conv1, self.bn1, nn.ReLU(), *pool)

    def forward(self, images: Tensor) -> Tensor:
        """(n, 3, h, w) to (n, d)."""
        x = functional.relu(self.bn1(self.conv1(images)))
        if self.stem == "standard":
            x = functional.max_pool2d(x, 3, stride=2, padding=1)
        for stage in self.stages():
            x = stage(x)
        return x.mean((2, 3))


@register_backbone("resnet18-he")
def resnet18_he(*, generator: torch.Generator, **options: Any) -> HeResNet:
    """ResNet-18 of He et al.; it has no dropout of its own."""
    return materialise(lambda: HeResNet(**options), generator, "relu")
