"""Prototypes of the classes that a session learns, with the two flags in which systems differ."""

from torch import Tensor

from subspan.engine.statistics import class_means
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
