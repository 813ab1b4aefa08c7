"""FeCAM: a Mahalanobis distance per class, from shrunken correlation matrices of transformed features."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from subspan.engine.contract import State
from subspan.learners.parts.gaussian import GaussianSystem
from subspan.learners.parts.vectors import euclidean_scores, unit
from subspan.learners.registry import register
from subspan.values import check_options, option


@register
@dataclass(frozen=True)
class Fecam(GaussianSystem):
    """Feature covariance-aware metric.

    Features x <- x^0.5. With m_c and S_c a class's mean and covariance, v1 and v2 the mean diagonal and off-diagonal
    entry of S_c [C, two public implementations agree]:

        S_c <- S_c + shrink v1 I + shrink_rest v2 (1 - I),  made a correlation matrix,
        score = -(x^ - m^_c)^T S_c^-1 (x^ - m^_c),  x^ and m^_c at length one

    Reference: Goswami, Liu, Twardowski, van de Weijer, FeCAM: Exploiting the Heterogeneity of Class Distributions in
    Exemplar-Free Continual Learning, NeurIPS 2023. Setting: class-incremental, many examples per class.

    Departures [ours]: shrinkage is 100, chosen on split 0; the published 1, for many examples, predicts no novel class
    there. Base classes share the file's one covariance, transformed by draws of N(class mean, pooled covariance).
    Negative features become 0, as a power needs; negative v2 counts as 0, which keeps S_c positive definite.
    """

    name = "fecam"
    summary = "Mahalanobis distance to class means, shrunken covariance of each class; no training"
    reference = "Goswami et al., NeurIPS 2023"
    marks = "C; base classes share one covariance, transformed by draws: ours"
    shrink: float = option(100.0, "mean variance added to the diagonal, times this")
    shrink_rest: float = option(100.0, "mean covariance added off the diagonal, times this")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, positive=("shrink",), not_negative=("shrink_rest",))

    def covariance(self, shared: Tensor, factors: Tensor, is_base: bool) -> Tensor:
        """S_c (d, d) of a class with these factors (f, d) before shrinkage; ``shared`` is that of the base classes."""
        own = factors.mT @ factors
        return shared + own if is_base else own

    def scores(self, state: State, queries: Tensor) -> Tensor:
        rows, count, (_, shared) = state.rows, state.base_count, self.base_statistics(state.base)
        means, factors = self.unpack(rows)
        seen = unit(self.transform(queries)).expand(*rows.shape[:-2], -1, -1)
        scores = rows.new_empty(*seen.shape[:-1], rows.shape[-2])
        is_base = torch.arange(rows.shape[-2], device=rows.device) < count
        roots = {kind: self._root(self.covariance(shared, shared[:0], kind)) for kind in (True, False)}
        for at in np.ndindex(*rows.shape[:-2]):
            mean, own = unit(means[at]), factors[at]
            without = ~own.flatten(1).any(1)  # classes that have no covariance of their own share one
            for kind, root in roots.items():
                alike = without & (is_base == kind)
                scores[at][:, alike] = mahalanobis_scores(root, mean[alike], seen[at])
            for c in torch.nonzero(~without)[:, 0].tolist():
                root = self._root(self.covariance(shared, own[c], c < count))
                scores[at][:, c] = mahalanobis_scores(root, mean[c : c + 1], seen[at])[:, 0]
        return scores

    def _root(self, covariance: Tensor) -> Tensor:
        return torch.linalg.cholesky(shrunken_correlation(covariance, self.shrink, self.shrink_rest))


def shrunken_correlation(covariance: Tensor, shrink: float, shrink_rest: float) -> Tensor:
    """The covariance (d, d) with shares of its mean diagonal and mean off-diagonal entry added, as a correlation.

    A covariance of zero, as one example has, becomes the identity.

    >>> shrunken_correlation(torch.tensor([[1.0, 1.0], [1.0, 3.0]]), shrink=0.5, shrink_rest=1.0)
    tensor([[1.0000, 0.7071],
            [0.7071, 1.0000]])
    """
    d = len(covariance)
    variance = covariance.diagonal().mean()
    rest = ((covariance.sum() - covariance.diagonal().sum()) / max(d * (d - 1), 1)).clamp(min=0)
    identity = torch.eye(d, dtype=covariance.dtype, device=covariance.device)
    grown = covariance + torch.where(variance > 0, shrink * variance, 1.0) * identity
    grown = grown + shrink_rest * rest * (1 - identity)
    deviation = grown.diagonal().sqrt()
    return grown / deviation[:, None] / deviation


def mahalanobis_scores(root: Tensor, means: Tensor, queries: Tensor) -> Tensor:
    """Negative squared Mahalanobis distances (q, C) of queries (q, d) and means (C, d); ``root`` of the covariance."""
    whitened = torch.linalg.solve_triangular(root, torch.cat([means, queries]).mT, upper=False).mT
    return euclidean_scores(whitened[: len(means)], whitened[len(means) :])
