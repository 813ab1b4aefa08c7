"""FeCAM: a Mahalanobis distance per class, from shrunken correlation matrices of transformed features."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.engine.contract import State
from subspan.learners.parts.gaussian import GaussianSystem
from subspan.learners.parts.vectors import euclidean_scores, unit
from subspan.learners.registry import register
from subspan.values import check_options, option

Group = tuple[NDArray[np.intp], str, Callable[[], FloatArray]]


@register
@dataclass(frozen=True)
class Fecam(GaussianSystem):
    """Feature covariance-aware metric.

    Features x <- x^0.5. With m_c and S_c a class's mean and covariance, v1 and v2 the mean diagonal and off-diagonal
    entry of S_c [C]:

        S_c <- S_c + s (v1 I + v2 (1 - I)),  made a correlation matrix,
        score = -(x^ - m^_c)^T S_c^-1 (x^ - m^_c),  x^ and m^_c at length one

    Reference: Goswami, Liu, Twardowski, van de Weijer, FeCAM: Exploiting the Heterogeneity of Class Distributions in
    Exemplar-Free Continual Learning, NeurIPS 2023. Setting: class-incremental, many examples per class.

    ``form=released`` gives the released code's predictions: s = 1, twice, v2 over entries that are not 0, the power of
    the class mean, session 0 by distance to base rows. Departures [ours]: s = 100, once, chosen on split 0, as five
    examples have hardly a covariance; the mean of powers; one base covariance, for a feature file that of draws.
    """

    name = "fecam"
    summary = "Mahalanobis distance to class means, shrunken covariance of each class; no training"
    reference = "Goswami et al., NeurIPS 2023"
    marks = "C: form=released; one base covariance, stronger shrinkage: ours"
    first_by_rows: ClassVar[bool] = True  # the released code, session 0
    form: Literal["ours", "released"] = option("ours", "as chosen here, or as the released code is")
    shrink: float | None = option(None, "mean variance added to the diagonal, times this; else 100, released 1")
    shrink_rest: float | None = option(None, "mean covariance added off the diagonal, times this; else as shrink")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_options(self, positive=("shrink",), not_negative=("shrink_rest",))

    @property
    def own_covariances(self) -> bool:
        return self.form == "released"

    @property
    def strengths(self) -> tuple[float, float]:
        """Of the diagonal's shrinkage and of the rest's."""
        first = self.shrink if self.shrink is not None else 1.0 if self.form == "released" else 100.0
        return first, first if self.shrink_rest is None else self.shrink_rest

    def class_row(self, examples: FloatArray, factors: int) -> FloatArray:
        row = super().class_row(examples, factors)
        if self.form == "released":
            row[0] = self.transform(examples.mean(0))
        return row

    def scores(self, state: State, queries: FloatArray) -> FloatArray:
        means, factors = self.unpack(state)
        if self.first_by_rows and self.form == "released" and means.shape[-2] == state.base_count:
            rows = state.base.means if state.base.rows is None else state.base.rows
            scores = euclidean_scores(unit(rows), unit(queries))
            return np.broadcast_to(scores, (*means.shape[:-2], *scores.shape[-2:]))
        seen = unit(self.transform(queries))
        seen = np.broadcast_to(seen, (*means.shape[:-2], *seen.shape[-2:]))
        scores = np.empty((*seen.shape[:-1], means.shape[-2]), seen.dtype)
        known: dict[str, FloatArray] = {}  # of classes that share a covariance, in all problems
        for at in np.ndindex(*means.shape[:-2]):
            centers = unit(self.centers(state.base_count, means[at]))
            for classes, name, covariance in self.covariances(state, means[at], factors[at]):
                inverse = known[name] if name in known else self.inverse(covariance())
                if name:
                    known[name] = inverse
                scores[at][:, classes] = mahalanobis_scores(inverse, centers[classes], seen[at])
        return scores

    def centers(self, count: int, means: FloatArray) -> FloatArray:
        """The means (C, d) that distances are taken from; ``count`` of them are base classes'."""
        return means

    def covariances(self, state: State, means: FloatArray, factors: FloatArray) -> Iterator[Group]:
        """Classes with one covariance each time, before shrinkage; a name where it is the same in all problems."""
        shared, count, d = self.shared_covariance(state), state.base_count, means.shape[1]
        alone = factors.any((1, 2))  # classes that have a covariance of their own
        is_base = np.arange(len(means)) < count
        yield np.flatnonzero(~alone & is_base), "base", lambda: np.broadcast_to(shared, (d, d))
        yield np.flatnonzero(~alone & ~is_base), "novel", lambda: np.zeros((d, d), means.dtype)
        for c in np.flatnonzero(alone):
            yield np.array([c]), "", lambda c=c: factors[c].T @ factors[c] + (shared if c < count else 0)

    def inverse(self, covariance: FloatArray) -> FloatArray:
        """Of the correlation matrix (d, d) that distances of a class are measured by."""
        for _ in range(2 if self.form == "released" else 1):
            covariance = shrunken(covariance, *self.strengths, of_all=self.form == "ours")
        return np.linalg.inv(correlation(covariance))


def shrunken(covariance: FloatArray, diagonal: float, rest: float, *, of_all: bool = True) -> FloatArray:
    """The covariance (d, d) with shares of its mean diagonal and mean off-diagonal entry added.

    The mean off the diagonal is that of all entries, if it is not negative; or, as the released code has it, of those
    that are not 0. Ones for a covariance of zero, as one example has.

    >>> shrunken(np.array([[1.0, 1.0], [1.0, 3.0]]), 0.5, 1.0)
    array([[2., 2.],
           [2., 4.]])
    """
    d, variances = len(covariance), np.diag(covariance)
    off = covariance - np.diag(variances)
    count = d * (d - 1) if of_all else np.count_nonzero(off)
    between = off.sum() / max(count, 1)
    variance = diagonal * variances.mean() if variances.any() else 1.0
    between = rest * (max(between, 0) if of_all else between)
    return covariance + between + (variance - between) * np.eye(d, dtype=covariance.dtype)


def correlation(covariance: FloatArray) -> FloatArray:
    """A covariance (d, d) whose variances are made one."""
    deviations = np.sqrt(np.diag(covariance))
    return covariance / deviations[:, None] / deviations


def mahalanobis_scores(inverse: FloatArray, means: FloatArray, queries: FloatArray) -> FloatArray:
    """Negative squared Mahalanobis distances (q, C) of queries (q, d) and means (C, d) by an inverse (d, d).

    >>> mahalanobis_scores(np.diag([1.0, 0.25]), np.zeros((1, 2)), np.array([[1.0, 2.0]]))
    array([[-2.]])
    """
    of_means, of_queries = means @ inverse, queries @ inverse
    return 2 * queries @ of_means.T - (queries * of_queries).sum(1)[:, None] - (means * of_means).sum(1)
