"""What systems with second-order statistics share: a row is a class's mean and the factors of its own covariance."""

from dataclasses import dataclass

import numpy as np

from subspan.arrays import FloatArray
from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means, within_classes
from subspan.learners.parts.base_samples import base_samples
from subspan.learners.parts.rows import with_places
from subspan.learners.parts.system import System
from subspan.values import check_options, option

SHARED = "shared"  # array of a state: covariance (d, d) that the base classes share, where examples gave it


@dataclass(frozen=True)
class GaussianSystem(System):
    """One Gaussian per class, in the space of transformed features.

    A row (1 + factors) * d is the mean (d,) followed by V (factors, d), with V^T V the covariance of the class's own
    examples. Base classes share one covariance and have V = 0, unless `own_covariances` gives each its own.
    """

    arrays = "numpy"
    from_examples = True
    needs = frozenset({"means", "covariance"})
    tukey: float = option(0.5, "power that features, negative ones set to 0, are raised to; 1 leaves them alone")
    factors: int = option(24, "directions kept of a novel class's own covariance; 24 is all of 25 examples'")
    samples: int = option(200, "draws for every base class, where statistics of transformed features are needed")
    seed: int = option(0, "seed of the draws")

    def __post_init__(self) -> None:
        check_options(self, positive=("tukey",), at_least={0: ("factors",), 2: ("samples",)})

    @property
    def power(self) -> float:
        """Of Tukey's ladder that the chosen form takes."""
        return self.tukey

    @property
    def own_covariances(self) -> bool:
        """Whether each base class has a covariance of its own, where there are examples."""
        return False

    def transform(self, features: FloatArray) -> FloatArray:
        """Tukey's ladder of powers, which makes skewed positive features more Gaussian."""
        return features if self.power == 1 else np.maximum(features, 0) ** self.power

    def class_row(self, examples: FloatArray, factors: int) -> FloatArray:
        """The row (1 + factors, d) of a class from its features (n, d)."""
        return row_of_examples(self.transform(examples), factors)

    def start(self, base: Base) -> State:
        if base.examples is None:
            return super().start(base)
        features, labels = base.examples, base.labels
        count, most, d = int(labels.max()) + 1, int(np.bincount(labels).max()), features.shape[1]
        factors = max(self.factors, min(most, d)) if self.own_covariances else self.factors
        rows = np.stack([self.class_row(features[labels == c], factors) for c in range(count)])
        if self.own_covariances:
            shared = np.zeros((1, 1), features.dtype)
        else:
            seen = self.transform(features)
            means = class_means(seen, labels, tuple(range(count)))
            rows[:, 1:] = 0  # what they vary by stands in the shared covariance
            shared = within_classes(seen, means, labels) * (len(seen) / max(len(seen) - count, 1))
        return State(base, {"rows": rows.reshape(count, -1), SHARED: shared})

    def base_statistics(self, base: Base) -> tuple[FloatArray, FloatArray]:
        """Class means (C0, d) and pooled covariance (d, d) of the transformed features, without examples.

        Of features as they are, the file's own; of others, those of draws from the file's Gaussians.
        """
        if self.power == 1:
            return base.means, base.covariance
        given = self.power, self.samples, self.seed
        return base.once(("transformed", *given), lambda: _statistics(base.means, base.covariance, *given))

    def shared_covariance(self, state: State) -> FloatArray:
        """What every base class varies by (d, d); (1, 1) of 0 where each has a covariance of its own."""
        kept = state.get(SHARED)
        return self.base_statistics(state.base)[1] if kept is None else kept[(0,) * (kept.ndim - 2)]

    def base_rows(self, base: Base) -> FloatArray:
        means, _ = self.base_statistics(base)
        return np.concatenate([means, np.zeros((len(means), self.factors * means.shape[1]), means.dtype)], axis=1)

    def learn(self, state: State, session: Session) -> State:
        rows = with_places(state.rows, session)
        support, width = session.support, session.support.shape[-1]
        problems = rows.reshape(-1, rows.shape[-2], rows.shape[-1] // width, width)
        labels = session.labels.reshape(-1, session.labels.shape[-1])
        for own, examples, label in zip(problems, support.reshape(-1, *support.shape[-2:]), labels, strict=True):
            for k, place in enumerate(session.classes):
                row = self.class_row(examples[label == place], own.shape[1] - 1)
                if place >= state.base_count:
                    row[0] = self.novel_mean(own[: state.base_count, 0], row[0])
                own[place] = row if session.share is None else mixed_row(own[place], row, float(session.share[k]))
        return state.after(rows=problems.reshape(rows.shape))

    def novel_mean(self, base_means: FloatArray, mean: FloatArray) -> FloatArray:
        """The mean (d,) that a novel class gets, from that of its transformed support."""
        return mean

    def unpack(self, state: State) -> tuple[FloatArray, FloatArray]:
        """Means (..., C, d) and factors V (..., C, factors, d) of a state's rows (..., C, (1 + factors) * d)."""
        parts = state.rows.reshape(*state.rows.shape[:-1], -1, state.base.means.shape[-1])
        return parts[..., 0, :], parts[..., 1:, :]


def row_of_examples(examples: FloatArray, factors: int) -> FloatArray:
    """The row (1 + factors, d) of a class from its examples (n, d); one example has no covariance.

    >>> abs(row_of_examples(np.array([[1.0, 0.0], [3.0, 0.0]]), 1)).round(4)
    array([[2.    , 0.    ],
           [1.4142, 0.    ]])
    """
    mean = examples.mean(0, keepdims=True)
    deviations = (examples - mean) / max(len(examples) - 1, 1) ** 0.5
    return np.concatenate([mean, reduced(deviations, factors)])


def mixed_row(old: FloatArray, new: FloatArray, share: float) -> FloatArray:
    """Two rows (1 + factors, d) of one class as one, of which ``share`` is the new one's.

    >>> abs(mixed_row(np.array([[0.0, 2.0], [2.0, 0.0]]), np.array([[4.0, 2.0], [0.0, 0.0]]), 0.5)).round(4)
    array([[2.    , 2.    ],
           [2.4495, 0.    ]])
    """
    between = (share * (1 - share)) ** 0.5 * (new[:1] - old[:1])  # what their means' distance adds to the covariance
    vectors = np.concatenate([(1 - share) ** 0.5 * old[1:], share**0.5 * new[1:], between])
    return np.concatenate([(1 - share) * old[:1] + share * new[:1], reduced(vectors, len(old) - 1)])


def reduced(vectors: FloatArray, count: int) -> FloatArray:
    """V (count, d) whose V^T V is that of vectors (n, d), or the nearest to it where count is less than n."""
    if len(vectors) > count:
        _, lengths, directions = np.linalg.svd(vectors.astype(np.float64), full_matrices=False)
        found = (lengths[:, None] * directions)[:count]
        vectors = np.where(vectors.any(0), found, 0).astype(vectors.dtype)  # a feature that never varies: no rounding
    return np.concatenate([vectors, np.zeros((count - len(vectors), vectors.shape[1]), vectors.dtype)])


def _statistics(
    means: FloatArray, covariance: FloatArray, power: float, samples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Class means and pooled covariance of draws, negative ones set to 0, raised to a power."""
    drawn = np.maximum(base_samples(means, covariance, samples, seed), 0) ** power
    found = drawn.mean(1)
    deviations = (drawn - found[:, None]).reshape(-1, drawn.shape[-1])
    return found, deviations.T @ deviations / (len(deviations) - len(found))
