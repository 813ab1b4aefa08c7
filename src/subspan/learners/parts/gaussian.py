"""What systems with second-order statistics share: a row is a class's mean and the factors of its own covariance."""

from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.contract import Base, Session, State
from subspan.learners.parts.base_samples import base_samples
from subspan.learners.parts.rows import with_places
from subspan.learners.parts.system import System
from subspan.values import check_options, option


@dataclass(frozen=True)
class GaussianSystem(System):
    """One Gaussian per class, in the space of transformed features.

    A row (1 + factors) * d is the mean (d,) followed by V (factors, d), with V^T V the covariance of the class's own
    examples; base classes have V = 0, since a feature file keeps one pooled covariance for all of them.
    """

    tukey: float = option(0.5, "power that features, negative ones set to 0, are raised to; 1 leaves them alone")
    factors: int = option(24, "directions kept of a novel class's own covariance; 24 is all of 25 examples'")
    samples: int = option(200, "draws for every base class, where statistics of transformed features are needed")
    seed: int = option(0, "seed of the draws")

    def __post_init__(self) -> None:
        check_options(self, positive=("tukey",), at_least={0: ("factors",), 2: ("samples",)})

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"means", "covariance"})

    def transform(self, features: Tensor) -> Tensor:
        """Tukey's ladder of powers, which makes skewed positive features more Gaussian."""
        return features if self.tukey == 1 else features.clamp(min=0) ** self.tukey

    def base_statistics(self, base: Base) -> tuple[Tensor, Tensor]:
        """Class means (C0, d) and pooled covariance (d, d) of the transformed base training features.

        Of features as they are, the file's own; of others, those of draws from the file's Gaussians.
        """
        if self.tukey == 1:
            return base.means, base.covariance
        given = self.tukey, self.samples, self.seed
        return base.once(("transformed", *given), lambda: _statistics(base.means, base.covariance, *given))

    def base_rows(self, base: Base) -> Tensor:
        means, _ = self.base_statistics(base)
        return torch.cat([means, means.new_zeros(len(means), self.factors * means.shape[1])], dim=1)

    def learn(self, state: State, session: Session) -> State:
        rows = with_places(state.rows, session)
        support = self.transform(session.support)
        width = support.shape[-1]
        problems = rows.view(-1, rows.shape[-2], 1 + self.factors, width)
        labels = session.labels.reshape(-1, session.labels.shape[-1])
        for own, examples, label in zip(problems, support.reshape(-1, *support.shape[-2:]), labels, strict=True):
            for k, place in enumerate(session.classes):
                row = row_of_examples(examples[label == place], self.factors)
                if place >= state.base_count:
                    row[0] = self.novel_mean(state.base, row[0])
                own[place] = row if session.share is None else mixed_row(own[place], row, float(session.share[k]))
        return state.after(rows=rows)

    def novel_mean(self, base: Base, mean: Tensor) -> Tensor:
        """The mean (d,) that a novel class gets, from that of its transformed support."""
        return mean

    def unpack(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means (..., d) and factors V (..., factors, d) of rows (..., (1 + factors) * d)."""
        parts = rows.unflatten(-1, (1 + self.factors, -1))
        return parts[..., 0, :], parts[..., 1:, :]


def row_of_examples(examples: Tensor, factors: int) -> Tensor:
    """The row (1 + factors, d) of a class from its examples (n, d); one example has no covariance.

    >>> row_of_examples(torch.tensor([[1.0, 0.0], [3.0, 0.0]]), 1).abs()
    tensor([[2.0000, 0.0000],
            [1.4142, 0.0000]])
    """
    mean = examples.mean(0, keepdim=True)
    deviations = (examples - mean) / max(len(examples) - 1, 1) ** 0.5
    return torch.cat([mean, reduced(deviations, factors)])


def mixed_row(old: Tensor, new: Tensor, share: float) -> Tensor:
    """Two rows (1 + factors, d) of one class as one, of which ``share`` is the new one's.

    >>> mixed_row(torch.tensor([[0.0, 2.0], [2.0, 0.0]]), torch.tensor([[4.0, 2.0], [0.0, 0.0]]), 0.5).abs()
    tensor([[2.0000, 2.0000],
            [2.4495, 0.0000]])
    """
    between = (share * (1 - share)) ** 0.5 * (new[:1] - old[:1])  # what their means' distance adds to the covariance
    vectors = torch.cat([(1 - share) ** 0.5 * old[1:], share**0.5 * new[1:], between])
    return torch.cat([(1 - share) * old[:1] + share * new[:1], reduced(vectors, len(old) - 1)])


def reduced(vectors: Tensor, count: int) -> Tensor:
    """V (count, d) whose V^T V is that of vectors (n, d), or the nearest to it where count is less than n."""
    if len(vectors) > count:
        _, lengths, directions = torch.linalg.svd(vectors.double(), full_matrices=False)
        vectors = (lengths[:, None] * directions)[:count].to(vectors)
    return torch.cat([vectors, vectors.new_zeros(count - len(vectors), vectors.shape[1])])


def _statistics(means: Tensor, covariance: Tensor, tukey: float, samples: int, seed: int) -> tuple[Tensor, Tensor]:
    """Class means and pooled covariance of draws, negative ones set to 0, raised to a power."""
    drawn = base_samples(means, covariance, samples, seed).clamp(min=0) ** tukey
    found = drawn.mean(1)
    deviations = (drawn - found[:, None]).flatten(0, 1)
    return found, deviations.mT @ deviations / (len(deviations) - len(found))
