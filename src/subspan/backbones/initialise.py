"""Weights from a generator: networks are laid out without values and filled here; no global random state is read."""

import math
from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from torch import nn

from subspan.backbones.drop import Clock

Nonlinearity = Literal["relu", "leaky_relu"]
Built = TypeVar("Built", bound=nn.Module)


def materialise(build: Callable[[], Built], generator: torch.Generator, nonlinearity: Nonlinearity) -> Built:
    """Call ``build`` with no memory behind its tensors, then fill every parameter and buffer on the CPU.

    Convolutions get He et al.'s normal values by fan-out, linear layers uniform +-1/sqrt(d), norms one and zero.
    """
    with torch.device("meta"):
        module = build()
    module.to_empty(device="cpu")
    for part in module.modules():
        _fill(part, generator, nonlinearity)
    return module


def _fill(part: nn.Module, generator: torch.Generator, nonlinearity: Nonlinearity) -> None:
    if isinstance(part, nn.Conv2d):
        nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity=nonlinearity, generator=generator)
    elif isinstance(part, nn.Linear):
        bound = 1 / math.sqrt(part.in_features)
        nn.init.uniform_(part.weight, -bound, bound, generator=generator)
        if part.bias is not None:
            nn.init.uniform_(part.bias, -bound, bound, generator=generator)
    elif isinstance(part, nn.BatchNorm2d | nn.GroupNorm):
        part.reset_parameters()  # ones and zeros, running statistics included
    elif isinstance(part, Clock):
        part.steps.zero_()
        part.reseed(0)
