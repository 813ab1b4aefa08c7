"""Names of backbones: one decorated function makes one known everywhere, with no edit elsewhere."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

Builder = Callable[..., nn.Module]
Registered = TypeVar("Registered", bound=Builder)
_BUILDERS: dict[str, Builder] = {}


def register_backbone(name: str) -> Callable[[Registered], Registered]:
    """Decorate a function from ``generator`` and options to a module from images (n, 3, h, w) to features (n, d)."""

    def keep(builder: Registered) -> Registered:
        if name in _BUILDERS:
            raise ValueError(f"backbone {name!r} is registered already; choose another name")
        _BUILDERS[name] = builder
        return builder

    return keep


def list_backbones() -> list[str]:
    """The registered names, sorted.

    >>> list_backbones()
    ['resnet12-tian', 'resnet18-he', 'resnet18-tian']
    """
    return sorted(_BUILDERS)


def create_backbone(name: str, *, seed: int = 0, **options: object) -> nn.Module:
    """Build a backbone with weights drawn by ``seed``; ``options`` are those of its function.

    >>> create_backbone("resnet18-tian", se=True).feature_dim
    640
    """
    if name not in _BUILDERS:
        raise ValueError(f"unknown backbone {name!r}; known are {', '.join(list_backbones())}")
    return _BUILDERS[name](generator=torch.Generator().manual_seed(seed), **options)
