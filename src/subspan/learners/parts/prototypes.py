"""Prototypes of the classes that a session learns, with the two flags in which systems differ."""

from torch import Tensor

from subspan.engine.contract import Head, class_means
from subspan.learners.parts.cosine import unit


def prototypes(features: Tensor, labels: Tensor, rows: tuple[int, ...], *, before: bool, after: bool) -> Tensor:
    """Mean feature (*batch, K, d) of each class in ``rows``; features (*batch, n, d), labels (*batch, n).

    ``before`` brings every feature to length one first, ``after`` the mean.

    >>> import torch
    >>> features, labels = torch.tensor([[4.0, 0.0], [0.0, 2.0]]), torch.tensor([7, 7])
    >>> prototypes(features, labels, (7,), before=False, after=False)
    tensor([[2., 1.]])
    >>> prototypes(features, labels, (7,), before=True, after=False)
    tensor([[0.5000, 0.5000]])
    """
    means = class_means(unit(features) if before else features, labels, rows)
    return unit(means) if after else means


def with_learned(head: Head, learned: Tensor) -> Tensor:
    """All rows (*batch, C, d), those of the session replaced; a known class keeps its earlier examples' share."""
    rows = head.rows.clone()
    places = list(head.learning)
    if head.share is not None:
        learned = rows[..., places, :] + head.share[:, None] * (learned - rows[..., places, :])
    rows[..., places, :] = learned
    return rows
