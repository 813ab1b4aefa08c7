"""Statistics of classes that sessions and base sessions need."""

import torch
from torch import Tensor


def class_means(support: Tensor, labels: Tensor, classes: tuple[int, ...]) -> Tensor:
    """Mean support feature (*batch, K, d) of each of these classes; support (*batch, n, d), labels (*batch, n).

    >>> class_means(torch.tensor([[0.0, 2.0], [2.0, 2.0], [5.0, 5.0]]), torch.tensor([7, 7, 8]), (7, 8))
    tensor([[1., 2.],
            [5., 5.]])
    """
    chosen = torch.tensor(classes, device=labels.device)
    member = (labels[..., None, :] == chosen[:, None]).to(support)  # (*batch, K, n)
    return (member @ support) / member.sum(-1, keepdim=True)


def within_classes(features: Tensor, means: Tensor, labels: Tensor) -> Tensor:
    """Covariance (d, d) of features (n, d) around the means (C, d) of their classes, labels (n,).

    >>> within_classes(torch.tensor([[0.0, 2.0], [2.0, 2.0]]), torch.tensor([[1.0, 2.0]]), torch.tensor([0, 0]))
    tensor([[1., 0.],
            [0., 0.]])
    """
    centred = features - means[labels]
    return centred.mT @ centred / len(features)
