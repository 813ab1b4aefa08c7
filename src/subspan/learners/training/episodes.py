"""Episodes out of the base classes: some of them play novel, and a system learns to learn them.

In every episode a few base classes are *fake novel*: they are learned from a handful of their examples, their own base
rows are out of sight (masks are -inf on logits and on attention), and queries of both kinds are asked for over all
remaining classes. Episodes are drawn and solved many at once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import TrainingRun

Parameters = Mapping[str, Tensor]


@dataclass(frozen=True)
class EpisodeShape:
    """How many classes and examples an episode has."""

    ways: int = 5  # fake-novel classes
    shots: int = 5  # support examples of each
    novel_queries: int = 3  # of each fake-novel class
    base_queries: int = 15  # in all, over the other base classes


@dataclass(frozen=True)
class FakeEpisodes:
    """E episodes. Classes are counted as the joint head counts them: C0 base ones, then the fake-novel ones."""

    support: Tensor  # (E, K, n, d)
    queries: Tensor  # (E, q, d)
    labels: Tensor  # (E, q)
    classes: Tensor  # (E, K): the base classes that play novel
    seen: Tensor  # (E, C0): False for those: their base rows are out of sight
    generator: torch.Generator  # for what else a step draws

    def hidden(self, logits: Tensor) -> Tensor:
        """Logits (E, q, C0 + K) with those of the hidden base rows at -inf."""
        count = self.seen.shape[-1]
        return torch.cat([logits[..., :count].masked_fill(~self.seen[:, None], -torch.inf), logits[..., count:]], -1)

    def cross_entropy(self, logits: Tensor) -> Tensor:
        """Mean over episodes and queries, over all classes in sight; logits (E, q, C0 + K)."""
        return torch.nn.functional.cross_entropy(self.hidden(logits).flatten(0, 1), self.labels.flatten())


def meta_train(
    parameters: Parameters,
    loss: Callable[[Parameters, FakeEpisodes], Tensor],
    features: TrainingFeatures,
    shape: EpisodeShape,
    run: TrainingRun,
) -> dict[str, Tensor]:
    """Train parameters on fake episodes, ``run.settings.batch`` of them in a step."""
    check_shape(features, shape)

    def step_loss(live: Parameters, generator: torch.Generator) -> Tensor:
        return loss(live, draw_fake_episodes(features, shape, run.settings.batch, generator))

    return run.minimise(parameters, step_loss, "meta-training")


def dropped(numbers: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """Dropout: a share of the numbers set to zero and the others raised to make up for it."""
    if rate == 0:
        return numbers
    return numbers * (torch.rand(numbers.shape, generator=generator) >= rate).to(numbers) / (1 - rate)


def draw_classes(features: TrainingFeatures, count: int, generator: torch.Generator) -> Tensor:
    """The base classes (count, C0), each time in another order."""
    return torch.rand(count, features.class_count, generator=generator).argsort(-1)


def draw_items(features: TrainingFeatures, classes: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """``count`` examples (E, K, count) of each of these classes (E, K), none twice."""
    most = features.features.shape[1]
    beyond = torch.arange(most) >= features.counts.cpu()[classes][..., None]
    ranks = torch.rand(*classes.shape, most, generator=generator).masked_fill(beyond, torch.inf)
    return ranks.topk(count, dim=-1, largest=False).indices


def check_shape(features: TrainingFeatures, shape: EpisodeShape) -> None:
    """Raise unless the base classes are enough for such episodes."""
    classes = features.class_count
    if shape.ways >= classes:
        raise ValueError(f"{shape.ways} base classes are to play novel, but there are {classes}; some must stay base")
    check_examples(features, shape.shots, shape.novel_queries)


def check_examples(features: TrainingFeatures, shots: int, queries: int) -> None:
    """Raise unless every base class has enough examples for an episode."""
    fewest = int(features.counts.min())
    if shots + queries > fewest:
        raise ValueError(f"an episode needs {shots} shots and {queries} queries of a class; one has {fewest} examples")


def draw_fake_episodes(
    features: TrainingFeatures, shape: EpisodeShape, count: int, generator: torch.Generator
) -> FakeEpisodes:
    """``count`` episodes, the same for every device."""
    classes, most, width = features.features.shape
    device, counts = features.features.device, features.counts.cpu()
    order = draw_classes(features, count, generator)
    novel, others = order[:, : shape.ways], order[:, shape.ways :]

    items = draw_items(features, novel, shape.shots + shape.novel_queries, generator)
    chosen = features.features[novel[..., None].to(device), items.to(device)]

    places = torch.randint(others.shape[1], (count, shape.base_queries), generator=generator)
    base_labels = others.gather(1, places)
    shares = torch.rand(count, shape.base_queries, generator=generator)
    base_items = (shares * counts[base_labels]).long().clamp(max=most - 1)
    base_queries = features.features[base_labels.to(device), base_items.to(device)]

    novel_labels = classes + torch.arange(shape.ways).repeat_interleave(shape.novel_queries).expand(count, -1)
    seen = torch.ones(count, classes, dtype=torch.bool).scatter_(1, novel, False)
    return FakeEpisodes(
        support=chosen[:, :, : shape.shots],
        queries=torch.cat([base_queries, chosen[:, :, shape.shots :].reshape(count, -1, width)], dim=1),
        labels=torch.cat([base_labels, novel_labels], dim=1).to(device),
        classes=novel.to(device),
        seen=seen.to(device),
        generator=generator,
    )
