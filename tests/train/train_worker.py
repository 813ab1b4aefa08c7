"""Trains on the colour classes in a process of its own: ``python train_worker.py FOLDER [WORD ...]``.

Words are ``resume``, ``double`` for a network of float64 without batch statistics, and KEY=VALUE for each other field
of the recipe.
"""

import ast
import sys
from math import gcd
from pathlib import Path

import torch
from colour_classes import run
from torch import Tensor, nn

from subspan.backbones.parts import blocks
from subspan.train.trainer import Runtime


def _double(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What a convolution takes, images too, as its weights are."""
    return tuple(each.double() for each in inputs) if isinstance(module, nn.Conv2d) else inputs


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, *rest = sys.argv[1:]
    changes = {key: ast.literal_eval(value) for key, value in (word.split("=") for word in rest if "=" in word)}
    if "double" in rest:
        torch.set_default_dtype(torch.float64)
        nn.modules.module.register_module_forward_pre_hook(_double)
        blocks.BatchNorm = lambda channels: nn.GroupNorm(gcd(channels, 8), channels)
    runtime = Runtime(device="cpu", checkpoint_every=1, validate_every=0)
    run(Path(folder), runtime, resume="resume" in rest, **changes)
