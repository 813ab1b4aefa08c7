"""The ResNet-18 of He et al. (Deep residual learning, CVPR 2016), 512 features.

The paper compares with it but its repository does not hold it, so it has the standard form: a 7x7 stem of stride 2 and
a 3x3 max-pool of stride 2, which leave 3x3 maps of an 84-pixel image. Parameter names are torchvision's.
"""

import torch
from torch import nn
from torch.nn import functional

from subspan.backbones.parts.blocks import BatchNorm, Block, Convolution, ResidualNetwork
from subspan.backbones.parts.initialise import materialise
from subspan.backbones.registry import register_backbone

CHANNELS = (64, 128, 256, 512)


@register_backbone("resnet18-he")
def resnet18_he(*, generator: torch.Generator, width: float = 1.0, se: bool = False) -> ResidualNetwork:
    """ResNet-18 of He et al.; it has no dropout of its own."""

    def build() -> ResidualNetwork:
        channels = [max(1, round(full * width)) for full in CHANNELS]
        stem = {"conv1": Convolution(3, channels[0], 7, stride=2), "bn1": BatchNorm(channels[0])}
        stem |= {"relu": nn.ReLU(), "maxpool": nn.MaxPool2d(3, stride=2, padding=1)}
        stages, inputs = [], channels[0]
        for stage, outputs in enumerate(channels):
            first = Block(inputs, outputs, 2, functional.relu, stride=2 if stage else 1, se=se)
            stages.append([first, Block(outputs, outputs, 2, functional.relu, se=se)])
            inputs = outputs
        return ResidualNetwork(stem, stages, None)

    return materialise(build, generator, "relu")
