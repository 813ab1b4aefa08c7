"""Weights from a generator: networks are laid out without values and filled here; no global random state is read."""

import math
from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from torch import nn

Built = TypeVar("Built", bound=nn.Module)


def materialise(
    build: Callable[[], Built], generator: torch.Generator, nonlinearity: Literal["relu", "leaky_relu"]
) -> Built:
    """Call ``build`` with no memory behind its tensors, then fill every parameter and buffer on the CPU.

    Convolutions get He et al.'s normal values by fan-out, linear layers uniform +-1/sqrt(d), anything else what its
    ``reset_parameters`` gives.
    """
    with torch.device("meta"):
        module = build()
    module.to_empty(device="cpu")
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity=nonlinearity, generator=generator)
        elif isinstance(part, nn.Linear):
            bound = 1 / math.sqrt(part.in_features)
            for value in part.parameters():
                nn.init.uniform_(value, -bound, bound, generator=generator)
        elif reset := getattr(part, "reset_parameters", None):
            reset()
    return module
