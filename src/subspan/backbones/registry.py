"""Names of backbones: one decorated function makes one known everywhere, with no edit elsewhere."""

import torch
from torch import nn

from subspan.registry import Registry

BACKBONES = Registry("backbone", "register_backbone", ("subspan.backbones",), "subspan.backbones")
# Decorates a function from ``generator`` and options to a module from images (n, 3, h, w) to features (n, d).
register_backbone = BACKBONES.named


def list_backbones() -> list[str]:
    """The registered names, sorted.

    >>> list_backbones()
    ['resnet12-tian', 'resnet18-he', 'resnet18-tian']
    """
    return [entry.name for entry in BACKBONES.entries()]


def create_backbone(name: str, *, seed: int = 0, **options: object) -> nn.Module:
    """Build a backbone with weights drawn by ``seed``; ``options`` are those of its function.

    >>> create_backbone("resnet18-tian", se=True).feature_dim
    640
    """
    entry = BACKBONES.get(name)
    if entry is None:
        raise ValueError(f"unknown backbone {name!r}; known are {', '.join(list_backbones())}")
    return entry.load()(generator=torch.Generator().manual_seed(seed), **options)
