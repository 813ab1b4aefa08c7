"""A neural gas: nodes that spread over features, with edges between nodes that are the two nearest of some feature.

Martinetz and Schulten, Topology representing networks, Neural Networks 1994: rank the nodes by their distance to a
feature, move each towards it by less the higher its rank, and connect the two nearest (competitive Hebbian learning).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

NONE = -1  # the age of an edge that is not there


@dataclass(frozen=True)
class GasSettings:
    """How nodes move and edges age."""

    rate: float = 0.02  # of the nearest node's move
    reach: float = 1.0  # the node of rank i moves exp(-i / reach) times as far, i from 0
    oldest: int = 200  # an edge older than this is dropped


@dataclass(frozen=True, eq=False)
class NeuralGas:
    """Nodes and the ages of their edges."""

    centres: Tensor  # (N, d)
    ages: Tensor  # (N, N): int32, symmetric; NONE without an edge

    @classmethod
    def at(cls, centres: Tensor) -> "NeuralGas":
        """Nodes (N, d) without edges."""
        ages = torch.full((len(centres),) * 2, NONE, dtype=torch.int32, device=centres.device)
        return cls(centres.clone(), ages)

    def neighbours(self) -> Tensor:
        """Which nodes an edge connects, (N, N)."""
        return self.ages != NONE

    def fed(self, features: Tensor, settings: GasSettings, *, moving: bool = True) -> "NeuralGas":
        """After features (n, d), one by one in their order; without ``moving`` they only make edges.

        >>> gas = NeuralGas.at(torch.tensor([[0.0], [10.0]])).fed(torch.tensor([[2.0]]), GasSettings(rate=0.5))
        >>> gas.centres.T  # 0 + 0.5 * 2, and 10 - 0.5 * 8 / e
        tensor([[1.0000, 8.5285]])
        """
        centres, ages = self.centres.clone(), self.ages.clone()
        influence = settings.rate * torch.exp(
            -torch.arange(len(centres), device=centres.device, dtype=centres.dtype) / settings.reach
        )
        for feature in features:
            step = feature - centres  # (N, d)
            order = step.square().sum(1).argsort()
            _connect(ages, order[:1], order[1:2], settings.oldest)
            if moving:
                by_node = torch.empty_like(influence).index_copy_(0, order, influence)
                centres.addcmul_(by_node[:, None], step)
        return NeuralGas(centres, ages)

    def joined(self, centres: Tensor) -> "NeuralGas":
        """With further nodes (K, d), which have no edges yet."""
        old, more = len(self.centres), len(centres)
        ages = self.ages.new_full((old + more, old + more), NONE)
        ages[:old, :old] = self.ages
        return NeuralGas(torch.cat([self.centres, centres]), ages)


def _connect(ages: Tensor, first: Tensor, second: Tensor, oldest: int) -> None:
    """The edges of the winner (1,) grow older by one, that to the second (1,) is new; too old ones go. In place."""
    row = ages.index_select(0, first)[0]  # by tensors throughout: a GPU need not wait to be told which
    row = torch.where(row == NONE, NONE, row + 1)
    row = torch.where(row > oldest, NONE, row).scatter(0, second, 0)
    ages.index_copy_(0, first, row[None])
    ages.index_copy_(1, first, row[:, None])


def spread_start(features: Tensor, labels: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Where nodes begin (count, d): features, as many of every class as the classes allow; labels (n,).

    >>> features, labels = torch.arange(6.0)[:, None], torch.tensor([0, 0, 0, 0, 1, 1])
    >>> start = spread_start(features, labels, 4, torch.Generator().manual_seed(0))
    >>> int((start < 4).sum()), int((start >= 4).sum())
    (2, 2)
    """
    if count > len(features):
        raise ValueError(f"{count} nodes asked for, but there are only {len(features)} features to start from")
    order = torch.randperm(len(features), generator=generator).to(labels.device)
    shuffled = labels[order]
    # The place of each feature among those of its class: all first ones come first, then all second ones.
    by_class = shuffled.argsort(stable=True)
    counts = torch.bincount(shuffled, minlength=int(shuffled.max()) + 1)
    first = counts.cumsum(0) - counts
    place = torch.empty_like(by_class)
    place[by_class] = torch.arange(len(by_class), device=labels.device) - first[shuffled[by_class]]
    return features[order[place.argsort(stable=True)[:count]]]


@dataclass(frozen=True, eq=False)
class NodeFacts:
    """What the nodes stand for among the features that made them."""

    nearest: Tensor  # (N,): the feature nearest to the node
    labels: Tensor  # (N,): the class of most of the features that it wins; of the nearest where it wins none
    variance: Tensor  # (N, d): of the features that it wins, in every dimension; pooled where it wins fewer than two


def describe(centres: Tensor, features: Tensor, labels: Tensor, chunk: int = 4096) -> NodeFacts:
    """Facts of nodes (N, d) about features (n, d) with labels (n,).

    >>> features, labels = torch.tensor([[0.0], [2.0], [9.0]]), torch.tensor([3, 3, 5])
    >>> facts = describe(torch.tensor([[0.9], [9.0]]), features, labels)
    >>> facts.nearest.tolist(), facts.labels.tolist(), facts.variance.flatten().tolist()
    ([0, 2], [3, 5], [1.0, 1.0])
    """
    winners = torch.cat([torch.cdist(part, centres).argmin(1) for part in features.split(chunk)])
    nearest = torch.cat([torch.cdist(part, features).argmin(1) for part in centres.split(64)])
    count, classes = len(centres), int(labels.max()) + 1
    wins = torch.bincount(winners, minlength=count)
    votes = torch.zeros(count, classes, dtype=torch.int64, device=labels.device)
    votes.index_put_((winners, labels), torch.ones_like(labels), accumulate=True)
    majority = torch.where(wins > 0, votes.argmax(1), labels[nearest])
    sums = torch.zeros_like(centres).index_add_(0, winners, features)
    means = sums / wins.clamp(min=1)[:, None]
    scatter = torch.zeros_like(centres).index_add_(0, winners, (features - means[winners]).square())
    variance = scatter / wins.clamp(min=1)[:, None]
    several = wins > 1
    pooled = scatter[several].sum(0) / wins[several].sum().clamp(min=1)
    return NodeFacts(nearest, majority, torch.where(several[:, None], variance, pooled))
