"""Heads: features (n, d) to logits (n, C), in the precision of their rows, whatever the network's is."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional


class _Head(nn.Module):
    """One row (d,) per class."""

    def __init__(self, feature_dim: int, classes: int, *, generator: torch.Generator) -> None:
        super().__init__()
        bound = 1 / math.sqrt(feature_dim)
        self.weight = nn.Parameter(torch.empty(classes, feature_dim).uniform_(-bound, bound, generator=generator))

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) to (n, C)."""
        with torch.autocast(features.device.type, enabled=False):
            return self.logits(features.to(self.weight.dtype))

    def logits(self, features: Tensor) -> Tensor:
        """(n, d) to (n, C), all in the precision of the rows."""
        return functional.linear(features, *self.linear_form())

    def linear_form(self) -> tuple[Tensor, Tensor | None]:
        """Rows (C, d) and perhaps a bias (C,) of the linear head with the same probabilities."""
        return self.weight, None


class LinearHead(_Head):
    """Inner products with one row per class, without a bias, as the paper's are."""

    kind = "linear"


class CosineHead(_Head):
    """Scaled cosines between features and one row per class."""

    kind = "cosine"

    def __init__(self, feature_dim: int, classes: int, *, scale: float = 16.0, generator: torch.Generator) -> None:
        super().__init__(feature_dim, classes, generator=generator)
        self.scale = nn.Parameter(torch.tensor(float(scale)), requires_grad=False)

    def logits(self, features: Tensor) -> Tensor:
        rows = functional.normalize(self.weight, dim=1)
        return self.scale * functional.linear(functional.normalize(features, dim=1), rows)


class EuclideanHead(_Head):
    """Negative squared distances between features and one row per class: the nearest row answers."""

    kind = "euclidean"

    def logits(self, features: Tensor) -> Tensor:
        return super().logits(features) - features.square().sum(1, keepdim=True)

    def linear_form(self) -> tuple[Tensor, Tensor | None]:
        """An image's own length cancels."""
        return 2 * self.weight, -self.weight.square().sum(1)


Head = LinearHead | CosineHead | EuclideanHead
_KINDS: dict[str, type[Head]] = {kind.kind: kind for kind in (LinearHead, CosineHead, EuclideanHead)}


def create_head(kind: str, feature_dim: int, classes: int, *, scale: float = 16.0, seed: int = 0) -> Head:
    """A head with rows drawn by ``seed``; ``scale`` is for cosine heads."""
    if kind not in _KINDS:
        raise ValueError(f"head must be one of {', '.join(_KINDS)}, got {kind!r}")
    generator = torch.Generator().manual_seed(seed)
    if kind == "cosine":
        return CosineHead(feature_dim, classes, scale=scale, generator=generator)
    return _KINDS[kind](feature_dim, classes, generator=generator)
