"""Softmax attention over base rows: what LwoF, Attention Attractors and CEC share."""

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
