"""RanPAC: ridge regression on random non-linear features."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from subspan.engine.contract import Base, State
from subspan.learners.parts.base_samples import noise, root_of
from subspan.learners.parts.gaussian import GaussianSystem
from subspan.learners.registry import register
from subspan.values import check_options, option

BLOCK = 256  # columns of G at once: what lies above them is not computed


@register
@dataclass(frozen=True)
class Ranpac(GaussianSystem):
    """Random projections and second moments, with drawn examples for every class.

    Ridge regression on h = relu(x R), R a fixed Gaussian, with G = sum h h^T and Q = sum h y^T [C]:

        score = h^T (G + lambda I)^-1 Q

    Lest novel scores be tiny, 800 examples of a novel class are drawn from N(m_k, beta (S + S_k)) [C].

    Reference: McDonnell, Gong, Parvaneh, Abbasnejad, van den Hengel, RanPAC: Random Projections and Pre-trained Models
    for Continual Learning, NeurIPS 2023; draws: Goswami, Twardowski, van de Weijer, CVPR workshops 2024. Setting:
    class-incremental with frozen transformers; the second, multi-session few-shot.

    Departures [ours]: the feature file has no sums of projected features, so base examples are drawn too, as many for
    every class, with one pooled covariance S; means are not calibrated. M and draws are smaller, for speed. lambda is
    chosen on split 0, in units of G's mean diagonal.
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

    def scores(self, state: State, queries: Tensor) -> Tensor:
        base, rows, count = state.base, state.rows, state.base_count
        novel_draws = self.draws(base, range(count, rows.shape[-2]), self.beta)
        seen = random_features(self.transform(queries), novel_draws.projection).expand(*rows.shape[:-2], -1, -1)
        scores = rows.new_empty(*seen.shape[:-1], rows.shape[-2])
        known = base.once(self, lambda: self._base_moments(base))  # base rows with their G and Q: mostly all problems'
        for at in np.ndindex(*rows.shape[:-2]):
            base_rows, novel_rows = rows[at][:count], rows[at][count:]
            if not torch.equal(known[0], base_rows):
                known = (base_rows, *self.moments_of(base_rows, self.draws(base, range(count))))
            gram, sums = self.moments_of(novel_rows, novel_draws)
            gram += known[1]
            scores[at] = seen[at] @ ridge_rows(gram, torch.cat([known[2], sums]), self.ridge).mT
        return scores

    def draws(self, base: Base, classes: range, beta: float = 1.0) -> "ProjectedDraws":
        """Draws for some classes by their places; ``beta`` is a factor on their covariances."""
        _, covariance = self.base_statistics(base)
        d = len(covariance)
        projection, projected_root = base.once(
            ("projections", self), lambda: projections(covariance, self.width, self.seed)
        )
        drawn = covariance.new_empty(len(classes), self.samples, d + self.factors)
        for own, place in zip(drawn, classes, strict=True):
            own.copy_(noise((self.samples, d + self.factors), self.seed + 1 + place, covariance))
        drawn *= beta**0.5
        return ProjectedDraws(projection, drawn[..., :d] @ projected_root, drawn[..., d:])

    def _base_moments(self, base: Base) -> tuple[Tensor, Tensor, Tensor]:
        """The rows of base classes as session 0 leaves them, with their G and Q."""
        rows = self.base_rows(base)
        return rows, *self.moments_of(rows, self.draws(base, range(len(rows))))

    def moments_of(self, rows: Tensor, draws: "ProjectedDraws") -> tuple[Tensor, Tensor]:
        """G (M, M) and Q (C, M) of the examples drawn for rows (C, (1 + factors) * d)."""
        return moments(draws.random_features(*self.unpack(rows)))


@dataclass(frozen=True)
class ProjectedDraws:
    """Examples of some classes up to their means and own factors V, which differ from problem to problem."""

    projection: Tensor  # R (d, M)
    spread: Tensor  # (C, n, M): x R of draws x from the pooled covariance
    own: Tensor  # (C, n, factors): how much of each row of V is in an example

    def random_features(self, means: Tensor, factors: Tensor) -> Tensor:
        """h (C, n, M) for means (C, d) and factors (C, factors, d), which are projected before they are added up.

        >>> draws = ProjectedDraws(torch.eye(2), torch.tensor([[[0.0, -4.0]]]), torch.tensor([[[2.0]]]))
        >>> draws.random_features(torch.tensor([[1.0, 1.0]]), torch.tensor([[[3.0, 0.0]]]))
        tensor([[[7., 0.]]])
        """
        deviations = torch.baddbmm(self.spread, self.own, factors @ self.projection)
        return deviations.add_((means @ self.projection)[:, None]).clamp_(min=0)


def random_features(features: Tensor, projection: Tensor) -> Tensor:
    """h (..., M) of features (..., d) by a projection (d, M)."""
    return (features @ projection).clamp(min=0)


def moments(features: Tensor) -> tuple[Tensor, Tensor]:
    """G (M, M) and Q (C, M) of features (C, n, M), means over the examples of each class; G in its lower triangle.

    >>> moments(torch.tensor([[[1.0, 0.0], [3.0, 2.0]]]))
    (tensor([[5., 3.],
            [3., 2.]]), tensor([[2., 1.]]))
    """
    flat = features.flatten(0, 1)
    gram = flat.new_zeros(flat.shape[1], flat.shape[1])
    for at in range(0, len(gram), BLOCK):
        gram[at:, at : at + BLOCK] = flat[:, at:].mT @ (flat[:, at : at + BLOCK] / features.shape[1])
    return gram, features.mean(1)


def ridge_rows(gram: Tensor, sums: Tensor, ridge: float) -> Tensor:
    """Q (G + lambda I)^-1 (C, M) with lambda the mean diagonal of G times ``ridge``; G is read in its lower triangle.

    >>> ridge_rows(torch.diag(torch.tensor([3.0, 1.0])), torch.tensor([[5.0, 6.0]]), 1.0).round()
    tensor([[1., 2.]])
    """
    scale, shifted = gram.diagonal().mean(), gram.clone()
    shifted.diagonal().add_(torch.where(scale > 0, ridge * scale, 1.0))
    return torch.cholesky_solve(sums.mT, torch.linalg.cholesky(shifted)).mT


def projections(covariance: Tensor, width: int, seed: int) -> tuple[Tensor, Tensor]:
    """R (d, M), and what takes standard normal numbers (n, d) to x R (n, M) of draws x with a covariance (d, d)."""
    projection = noise((len(covariance), width), seed, covariance)
    return projection, root_of(covariance).mT @ projection
