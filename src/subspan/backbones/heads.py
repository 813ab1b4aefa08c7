"""Heads: features (n, d) to logits (n, C), in the precision of their rows, whatever the network's is."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

Head = Literal["linear", "cosine", "euclidean"]


class LinearHead(nn.Module):
    """Inner products with one row per class; no bias unless asked for (the paper's heads have none)."""

    kind = "linear"

    def __init__(self, feature_dim: int, classes: int, *, bias: bool = False, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(_rows(feature_dim, classes, generator))
        bound = 1 / math.sqrt(feature_dim)
        self.bias = nn.Parameter(torch.empty(classes).uniform_(-bound, bound, generator=generator)) if bias else None

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) to (n, C)."""
        with torch.autocast(features.device.type, enabled=False):
            return functional.linear(features.to(self.weight.dtype), self.weight, self.bias)


class CosineHead(nn.Module):
    """Scaled cosines between features and one row per class; the scale may be learned."""

    kind = "cosine"
    bias = None

    def __init__(
        self,
        feature_dim: int,
        classes: int,
        *,
        scale: float = 16.0,
        learn_scale: bool = False,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        if scale <= 0:
            raise ValueError(f"the scale of a cosine head must be positive, got {scale}")
        self.weight = nn.Parameter(_rows(feature_dim, classes, generator))
        self.scale = nn.Parameter(torch.tensor(float(scale)), requires_grad=learn_scale)

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) to (n, C)."""
        with torch.autocast(features.device.type, enabled=False):
            rows, features = functional.normalize(self.weight, dim=1), features.to(self.weight.dtype)
            return self.scale * functional.linear(functional.normalize(features, dim=1), rows)


class EuclideanHead(nn.Module):
    """Negative squared distances between features and one row per class: the nearest row answers."""

    kind = "euclidean"
    bias = None

    def __init__(self, feature_dim: int, classes: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(_rows(feature_dim, classes, generator))

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) to (n, C)."""
        with torch.autocast(features.device.type, enabled=False):
            features = features.to(self.weight.dtype)
            return functional.linear(features, *self.linear_form()) - features.square().sum(1, keepdim=True)

    def linear_form(self) -> tuple[Tensor, Tensor]:
        """Rows (C, d) and bias (C,) of the linear head with the same probabilities: an image's own length cancels."""
        return 2 * self.weight, -self.weight.square().sum(1)


def create_head(
    kind: str,
    feature_dim: int,
    classes: int,
    *,
    bias: bool = False,
    scale: float = 16.0,
    learn_scale: bool = False,
    seed: int = 0,
) -> LinearHead | CosineHead | EuclideanHead:
    """A head with rows drawn by ``seed``; ``bias`` is for linear heads, the two scale options for cosine heads."""
    generator = torch.Generator().manual_seed(seed)
    if kind == "linear":
        return LinearHead(feature_dim, classes, bias=bias, generator=generator)
    if kind == "cosine":
        return CosineHead(feature_dim, classes, scale=scale, learn_scale=learn_scale, generator=generator)
    if kind == "euclidean":
        return EuclideanHead(feature_dim, classes, generator=generator)
    raise ValueError(f"head must be one of {', '.join(get_args(Head))}, got {kind!r}")


def _rows(feature_dim: int, classes: int, generator: torch.Generator) -> Tensor:
    bound = 1 / math.sqrt(feature_dim)
    return torch.empty(classes, feature_dim).uniform_(-bound, bound, generator=generator)
