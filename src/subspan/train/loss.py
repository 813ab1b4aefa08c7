"""The loss of a base session: cross-entropy with label smoothing, over one or two labels per image."""

import torch
from torch import Tensor
from torch.nn import functional


def mixed_cross_entropy(logits: Tensor, labels: Tensor, partners: Tensor, share: Tensor, smoothing: float) -> Tensor:
    """Mean cross-entropy () of logits (n, C): ``share`` () of it by ``labels`` (n,), the rest by ``partners`` (n,)."""
    log_probabilities = functional.log_softmax(logits.float(), dim=1)
    first = log_probabilities.gather(1, labels[:, None]).mean()
    second = log_probabilities.gather(1, partners[:, None]).mean()
    target = share * first + (1 - share) * second
    if smoothing == 0:
        return -target
    return -((1 - smoothing) * target + smoothing * log_probabilities.mean())


def count_correct(logits: Tensor, labels: Tensor) -> Tensor:
    """How many of (n, C) logits are largest at their label, ()."""
    return (logits.detach().argmax(1) == labels).sum(dtype=torch.float32)
