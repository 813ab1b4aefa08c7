"""Calibrated second-order statistics: FeCAM whose novel classes borrow mean and covariance from base classes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from subspan.arrays import FloatArray
from subspan.engine.contract import State
from subspan.learners.parts.vectors import drawn_towards, softmax, unit
from subspan.learners.published.fecam import Fecam, Group, correlation
from subspan.learners.registry import register
from subspan.values import check_options, option

RIDGE = 100.0  # what the released code adds to variances


@register
@dataclass(frozen=True)
class CalibratedFecam(Fecam):
    """FeCAM with calibrated means and covariances of novel classes.

    A novel class k borrows mean and covariance from the base classes b that it resembles, by TEEN's similarities a_kb
    [C]:

        m_k <- (1 - alpha) m^_k + alpha unit(sum_b a_kb m^_b),   S_k <- beta (sum_b a_kb S_b + S_k)

    with beta = 1, tau = 16, alpha 0.1 on fine-grained data and 0.25 on CIFAR.

    Reference: Goswami, Twardowski, van de Weijer, Calibrating Higher-Order Statistics for Few-Shot Class-Incremental
    Learning with Pre-trained Vision Transformers, CVPR workshops 2024. Setting: multi-session, frozen transformers.

    ``form=released`` gives the released code's predictions: no power, 100 I added, at the scale of its transformers'
    features, and the correlations of the rows of what results. Departures [ours]: FeCAM's power, shrinkage and
    correlations, and one base covariance: better on photographs.
    """

    name = "calibrated-fecam"
    summary = "FeCAM whose novel classes borrow mean and covariance from base classes; no training"
    reference = "Goswami et al., CVPR workshops 2024"
    marks = "C: form=released; FeCAM's power and shrinkage, one base covariance: ours"
    first_by_rows = False
    alpha: float = option(0.25, "share of similar base means in a novel one")
    tau: float = option(16.0, "factor on the cosines whose softmax says how similar base means are")
    beta: float = option(1.0, "factor on the sum of base and own covariance of a novel class")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, shares=("alpha",), positive=("beta",))

    @property
    def power(self) -> float:
        return 1.0 if self.form == "released" else self.tukey

    def novel_mean(self, base_means: FloatArray, mean: FloatArray) -> FloatArray:
        return mean if self.form == "released" else drawn_towards(unit(mean), unit(base_means), self.alpha, self.tau)

    def centers(self, count: int, means: FloatArray) -> FloatArray:
        if self.form == "ours":
            return means
        known = unit(means[:count])  # here rows keep the classes' own means, by which covariances are lent
        return np.concatenate([known, drawn_towards(unit(means[count:]), known, self.alpha, self.tau)])

    def covariances(self, state: State, means: FloatArray, factors: FloatArray) -> Iterator[Group]:
        count, shared = state.base_count, self.shared_covariance(state)
        yield from super().covariances(state, means[:count], factors[:count])
        base, novel, d = factors[:count], factors[count:], means.shape[1]
        similar = softmax(self.tau * unit(means[count:]) @ unit(means[:count]).T)  # a (K, C0)
        alone = novel.any((1, 2)) | base.any()
        yield count + np.flatnonzero(~alone), "novel", lambda: self.beta * np.broadcast_to(shared, (d, d))
        for k in np.flatnonzero(alone):
            lent = (similar[k, :, None, None] ** 0.5 * base).reshape(-1, d) if base.any() else base[:0, 0]
            parts = np.concatenate([lent, novel[k]])
            yield np.array([count + k]), "", lambda parts=parts: self.beta * (shared + parts.T @ parts)

    def inverse(self, covariance: FloatArray) -> FloatArray:
        if self.form == "ours":
            return super().inverse(covariance)
        grown = covariance + RIDGE * np.eye(len(covariance), dtype=covariance.dtype)
        centred = grown - grown.mean(1, keepdims=True)
        metric = correlation(centred @ centred.T)
        # Centred rows leave one direction out, in which the released code's pseudo-inverse is 0.
        lost = np.linalg.solve(grown, np.ones(len(grown), grown.dtype)) * np.linalg.norm(centred, axis=1)
        beside = np.outer(lost, lost) / (lost @ lost)
        return np.linalg.inv(metric + beside) - beside
