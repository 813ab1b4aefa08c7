"""Heads beside plain cosines and distances: attention over rows, and rows that are never learned."""

from functools import lru_cache

import torch
from torch import Tensor


def attend(queries: Tensor, keys: Tensor, values: Tensor, scale: Tensor | float, mask: Tensor | None = None) -> Tensor:
    """Values (*batch, m, v) weighted for each query: softmax over the m keys of scale * query . key, times values.

    queries (*batch, q, d), keys (*batch, m, d); ``mask`` (*batch, q or 1, m) is False where a query may not look.

    >>> queries, keys = torch.tensor([[1.0, 0.0]]), torch.eye(2)
    >>> attend(queries, keys, torch.tensor([[4.0], [8.0]]), 0.0)
    tensor([[6.]])
    >>> attend(queries, keys, torch.tensor([[4.0], [8.0]]), 0.0, torch.tensor([[False, True]]))
    tensor([[8.]])
    """
    scores = scale * (queries @ keys.mT)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, dim=-1) @ values


@lru_cache(maxsize=4)  # nobody changes it
def simplex(count: int, width: int, seed: int) -> Tensor:
    """A simplex equiangular tight frame (count, width): unit vectors, each pair at the cosine -1 / (count - 1).

    Scores by it are cosines.

    >>> corners = simplex(3, 4, seed=0)
    >>> (corners @ corners.mT).round(decimals=4)
    tensor([[ 1.0000, -0.5000, -0.5000],
            [-0.5000,  1.0000, -0.5000],
            [-0.5000, -0.5000,  1.0000]], dtype=torch.float64)
    """
    if count > width:
        raise ValueError(f"a simplex of {count} corners at right angles to its centre needs a width of {count} or more")
    drawn = torch.randn(width, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    basis, triangle = torch.linalg.qr(drawn)
    basis = basis * triangle.diagonal().sign()  # which of the two signs is the library's choice otherwise
    centred = torch.eye(count, dtype=torch.float64) - 1 / count
    return (count / max(count - 1, 1)) ** 0.5 * (basis @ centred).mT
