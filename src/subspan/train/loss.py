"""The loss of a base session: cross-entropy with label smoothing and a margin, over one or two labels per image."""

import torch
from torch import Tensor
from torch.nn import functional


def mixed_cross_entropy(
    logits: Tensor, labels: Tensor, partners: Tensor, share: Tensor, smoothing: float, margin: Tensor | None = None
) -> Tensor:
    """Mean cross-entropy () of logits (n, C): a share of it by ``labels`` (n,), the rest by ``partners`` (n,).

    ``share`` is one for all, (), or each image's own, (n,). ``margin`` () is taken from the logit of the label before
    (CosFace; Wang et al., CVPR 2018), in either part from its own label.
    """

    def likelihood(chosen: Tensor) -> Tensor:
        """Log-likelihood (n,) of one label per image."""
        lowered = logits.float()
        if margin is not None:
            lowered = lowered - margin * (torch.arange(logits.shape[1], device=logits.device) == chosen[:, None])
        log_probabilities = functional.log_softmax(lowered, dim=1)
        found = log_probabilities.gather(1, chosen[:, None]).squeeze(1)
        return found if smoothing == 0 else (1 - smoothing) * found + smoothing * log_probabilities.mean(1)

    return -(share * likelihood(labels) + (1 - share) * likelihood(partners)).mean()


def count_correct(logits: Tensor, labels: Tensor) -> Tensor:
    """How many of (n, C) logits are largest at their label, ()."""
    return (logits.detach().argmax(1) == labels).sum(dtype=torch.float32)
