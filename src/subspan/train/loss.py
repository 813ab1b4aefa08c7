"""The loss of a base session: cross-entropy with label smoothing and a margin, over one or two labels per image."""

import torch
from torch import Tensor
from torch.nn import functional


def mixed_cross_entropy(
    logits: Tensor, labels: Tensor, partners: Tensor, share: Tensor, smoothing: float, margin: Tensor | None = None
) -> Tensor:
    """Mean cross-entropy () of logits (n, C): ``share`` () of it by ``labels`` (n,), the rest by ``partners`` (n,).

    ``margin`` () is taken from the logit of the label before (CosFace; Wang et al., CVPR 2018), in either part from its
    own label.
    """
    if margin is not None:
        own, other = (
            mixed_cross_entropy(_less(logits, chosen, margin), chosen, chosen, share, smoothing)
            for chosen in (labels, partners)
        )
        return share * own + (1 - share) * other
    log_probabilities = functional.log_softmax(logits.float(), dim=1)
    first = log_probabilities.gather(1, labels[:, None]).mean()
    second = log_probabilities.gather(1, partners[:, None]).mean()
    target = share * first + (1 - share) * second
    if smoothing == 0:
        return -target
    return -((1 - smoothing) * target + smoothing * log_probabilities.mean())


def _less(logits: Tensor, labels: Tensor, margin: Tensor) -> Tensor:
    """Logits (n, C) with the margin () taken from each label's."""
    column = torch.arange(logits.shape[1], device=logits.device)
    return logits.float() - margin * (column == labels[:, None])


def count_correct(logits: Tensor, labels: Tensor) -> Tensor:
    """How many of (n, C) logits are largest at their label, ()."""
    return (logits.detach().argmax(1) == labels).sum(dtype=torch.float32)
