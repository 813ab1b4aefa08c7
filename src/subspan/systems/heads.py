"""How rows score queries: by cosine, or by Euclidean distance."""

from torch import Tensor

from ..methods.cosine import unit


def cosine_scores(rows: Tensor, queries: Tensor) -> Tensor:
    """Cosines (*batch, q, C) of queries (q, d) and rows (*batch, C, d).

    >>> import torch
    >>> cosine_scores(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return unit(queries) @ unit(rows).mT


def euclidean_scores(rows: Tensor, queries: Tensor) -> Tensor:
    """Negative squared distances (*batch, q, C) of queries (q, d) and rows (*batch, C, d).

    >>> import torch
    >>> euclidean_scores(torch.tensor([[2.0, 0.0], [3.0, 3.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[-17.,  -1.]])
    """
    lengths = queries.square().sum(-1)[..., :, None] + rows.square().sum(-1)[..., None, :]
    return 2 * queries @ rows.mT - lengths
