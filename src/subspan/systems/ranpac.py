"""RanPAC: ridge regression on random non-linear features."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..methods import BaseSession, register
from ..methods.base import check_options, option
from .base_samples import noise, root_of
from .gaussian import GaussianSystem


@register
@dataclass(frozen=True)
class Ranpac(GaussianSystem):
    """Random projections and second moments, with drawn examples for every class.

    Reference: McDonnell, Gong, Parvaneh, Abbasnejad, van den Hengel, RanPAC: Random Projections and Pre-trained Models
    for Continual Learning, NeurIPS 2023; examples drawn for novel classes as in Goswami, Twardowski, van de Weijer,
    CVPR workshops 2024. Setting: class-incremental with frozen transformers; the second, multi-session few-shot.

    h = relu(x R), R a fixed Gaussian (d, M), M = 10,000. With G = sum h h^T and Q = sum h y^T over all examples [C]:

        score = h^T (G + lambda I)^-1 Q

    500 examples of a base class against 5 of a novel one make novel scores tiny, so 800 examples of each novel class
    are drawn from N(m_k, beta (S + S_k)), beta = 0.5 [C], S_k the covariance of its support.

    Departures [ours]: the feature file has no sums of projected features, so base examples are drawn too, from N(class
    mean, pooled covariance S), as many for every class: this is the balanced form, and the unbalanced one is left out.
    S stands for the mixture of base covariances; means are not calibrated. M and the number of draws are smaller, for
    speed. lambda is in units of the mean diagonal of G; 0.01 is the best of 0.001, 0.01, 0.1 and 1 on the development
    split (split 0).
    """

    name = "ranpac"
    summary = "ridge regression on random non-linear features of drawn examples; no training"
    reference = "McDonnell et al., NeurIPS 2023; draws of Goswami et al., CVPR workshops 2024"
    marks = "C; all examples drawn from statistics, smaller M: ours"
    tukey: float = option(1.0, "power that features, negative ones set to 0, are raised to; 1 leaves them alone")
    samples: int = option(100, "examples drawn for every class")
    width: int = option(2000, "random features M; published: 10000")
    ridge: float = option(0.01, "lambda, in units of the mean diagonal of G")
    beta: float = option(0.5, "factor on the sum of base and own covariance of a novel class")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, at_least={1: ("width",)}, positive=("ridge",), not_negative=("beta",))

    def scores(self, base: BaseSession, rows: Tensor, queries: Tensor) -> Tensor:
        count, (_, covariance) = len(base.rows), self.base_statistics(base)
        means, factors = self.unpack(rows)
        d, classes = means.shape[-1], rows.shape[-2]
        root, projection = root_of(covariance), noise((d, self.width), self.seed, rows)
        drawn = torch.stack([noise((self.samples, d + self.factors), self.seed + 1 + c, rows) for c in range(classes)])
        spread = drawn[..., :d] @ root.mT
        spread[count:] *= self.beta**0.5
        seen = random_features(self.transform(queries), projection).expand(*rows.shape[:-2], -1, -1)
        scores = rows.new_empty(*seen.shape[:-1], classes)
        known: tuple[Tensor, Tensor, Tensor] | None = None  # base rows with their G and Q: mostly alike in all problems
        for at in np.ndindex(*rows.shape[:-2]):
            own = torch.cat([factors[at][:count], factors[at][count:] * self.beta**0.5])
            examples = means[at][:, None] + spread + drawn[..., d:] @ own
            if known is None or not torch.equal(known[0], rows[at][:count]):
                known = (rows[at][:count], *moments(random_features(examples[:count], projection)))
            novel = moments(random_features(examples[count:], projection))
            gram, sums = known[1] + novel[0], torch.cat([known[2], novel[1]])
            scores[at] = seen[at] @ ridge_rows(gram, sums, self.ridge).mT
        return scores


def random_features(features: Tensor, projection: Tensor) -> Tensor:
    """h (..., M) of features (..., d) by a projection (d, M)."""
    return (features @ projection).clamp(min=0)


def moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """G (M, M) and Q (C, M) of features (C, n, M), means over the examples of each class.

    >>> moments(torch.tensor([[[1.0, 0.0], [3.0, 2.0]]]))
    (tensor([[5., 3.],
            [3., 2.]]), tensor([[2., 1.]]))
    """
    flat = features.flatten(0, 1)
    return flat.mT @ flat / features.shape[1], features.mean(1)


def ridge_rows(gram: Tensor, sums: Tensor, ridge: float) -> Tensor:
    """Q (G + lambda I)^-1 (C, M) with lambda the mean diagonal of G times ``ridge``.

    >>> ridge_rows(torch.diag(torch.tensor([3.0, 1.0])), torch.tensor([[5.0, 6.0]]), 1.0).round()
    tensor([[1., 2.]])
    """
    scale = gram.diagonal().mean()
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    root = torch.linalg.cholesky(gram + torch.where(scale > 0, ridge * scale, 1.0) * identity)
    return torch.cholesky_solve(sums.mT, root).mT
