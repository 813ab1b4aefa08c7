"""The single-session protocol: thousands of episodes, each with a few novel classes beside all base classes.

Every episode starts again from session 0, learns its novel classes from 1 or 5 images without memory, and is asked
about base and novel images alike. Episodes are solved many at once.
"""

import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.engine import sessions
from subspan.engine.contract import Learner, Session, State
from subspan.experiments.answers import checked_scores
from subspan.experiments.episodes import ARRAYS, Episodes, digest_of_items
from subspan.experiments.inputs import (
    FeatureTensors,
    ProtocolError,
    check_inputs,
    digest_of,
    items_by_class,
    weight_space,
)
from subspan.experiments.records import TRANSDUCTIVE
from subspan.experiments.results import EpisodeResult
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import spec_of
from subspan.values import check_options, option, tensor_of

BATCH_ON_GPU = 2000  # of 5 ways x 5 shots x 5 copies and 69 classes: some GB


@dataclass(frozen=True)
class SingleSession:
    """How episodes are drawn from a feature file."""

    ways: int = option(5, "novel classes of an episode")
    shots: int = option(5, "support images per novel class")
    base_queries: int = option(25, "base test images of an episode")
    novel_queries: int = option(25, "novel test images of an episode, as many of each class")
    count: int = option(2000, "how many episodes")
    seed: int = option(0, "seed of the episodes and of the rows' start")
    dtype: Literal["float32", "float64"] = option("float32", "arithmetic")

    def __post_init__(self) -> None:
        counts = ("ways", "shots", "base_queries", "novel_queries", "count")
        check_options(self, at_least={1: counts, 0: ("seed",)}, error=ProtocolError)
        if self.novel_queries % self.ways:
            raise ProtocolError(
                f"novel_queries must be a multiple of the {self.ways} ways, as many of each class; "
                f"got {self.novel_queries}"
            )

    @property
    def digest(self) -> str:
        """A short hash of all settings, stamped on every result."""
        return digest_of("single-session", self)

    def draw(self, features: FeatureSet) -> Episodes:
        """The episodes of this protocol on these features.

        Each is drawn by a generator of its own, so that the first are the same however many there are. Fewer shots are
        the first of more, and nothing else differs.
        """
        each = self.novel_queries // self.ways
        support_of = items_by_class(features, "support", self.shots, f"{self.shots} shots")
        queries_of = items_by_class(features, "test", each, f"{each} queries a class")
        base_items = len(features.base_test)
        if self.ways > len(support_of):
            raise ProtocolError(f"{self.ways} ways asked for, but there are only {len(support_of)} novel classes")
        if self.base_queries > base_items:
            raise ProtocolError(
                f"{self.base_queries} base queries asked for, but there are only {base_items} base test items"
            )
        drawn: dict[str, list] = {name: [] for name in ARRAYS}
        for episode in range(self.count):
            rng = np.random.default_rng([self.seed, episode])
            classes = rng.permutation(len(support_of))[: self.ways]
            drawn["classes"].append(classes)
            drawn["base_queries"].append(rng.choice(base_items, self.base_queries, replace=False))
            drawn["novel_queries"].append([rng.permutation(queries_of[c])[:each] for c in classes])
            drawn["seeds"].append(rng.integers(2**32))
            drawn["support"].append([rng.permutation(support_of[c])[: self.shots] for c in classes])
        arrays = {name: np.array(values, dtype=np.int64) for name, values in drawn.items()}
        return Episodes(**arrays, protocol=self.digest, items=digest_of_items(features))

    def run(
        self,
        features: FeatureSet,
        method: Learner,
        *,
        embeddings: NDArray | None = None,
        episodes: Episodes | None = None,
        device: str | torch.device = "cpu",
        batch: int | None = None,
    ) -> EpisodeResult:
        """Learn and score all episodes.

        Parameters
        ----------
        embeddings : of all classes (C0 + C1, e), base first, for methods that need them.
        episodes : replay these instead of drawing; they must be of these features.
        batch : episodes solved at once; by default 2000 on a GPU, and on a CPU what the method says.
        """
        check_inputs(features, method, False, embeddings)
        episodes = self.draw(features) if episodes is None else episodes
        episodes.check(features)
        stage = Stage(features, embeddings, use_bias=method.uses_bias, device=device, dtype=self.dtype)
        pieces = batches(len(episodes), batch or batch_size(method, device))
        return EpisodeResult.joined([stage.run(method, episodes.part(start, stop)) for start, stop in pieces])


def batch_size(method: Learner, device: str | torch.device) -> int:
    """How many episodes a method solves at once."""
    return method.batch_on_cpu if torch.device(device).type == "cpu" else BATCH_ON_GPU


def batches(count: int, size: int) -> list[tuple[int, int]]:
    """Where each batch of episodes starts and stops.

    >>> batches(5, size=2)
    [(0, 2), (2, 4), (4, 5)]
    """
    return [(start, min(start + size, count)) for start in range(0, count, size)]


class Stage:
    """A feature set on a device, ready to run batches of episodes of any method that uses its bias alike."""

    def __init__(
        self,
        features: FeatureSet,
        embeddings: NDArray | None,
        *,
        use_bias: bool,
        device: str | torch.device,
        dtype: str,
    ) -> None:
        self.device = torch.device(device)
        self.names = features.class_names
        self.base_labels = tensor_of(features.base_test_labels).to(self.device)
        self.tensors = FeatureTensors.of(
            features, embeddings, use_bias=use_bias, device=self.device, dtype=getattr(torch, dtype)
        )

    def run(self, method: Learner, episodes: Episodes) -> EpisodeResult:
        """Learn these episodes as one batch and score their queries; the weight space is that of the first one."""
        began = time.perf_counter()
        session = self.prepare(episodes)
        state = sessions.learn(method, sessions.start(method, self.tensors.base, len(episodes)), session)
        accuracy = self._score(method, state, episodes)
        learned = [self.names[state.base_count + c] for c in episodes.classes[0]]
        embeddings = None if session.embeddings is None else session.embeddings[0]
        names = (*self.names[: state.base_count], *learned)
        return EpisodeResult(
            method=spec_of(method),
            shots=episodes.support.shape[2],
            **accuracy,
            steps=sessions.steps_of(state, len(episodes)).astype(np.float64),
            seconds=time.perf_counter() - began,
            protocol=episodes.protocol,
            weight_space=weight_space(method, state, embeddings, names),
            notes=(TRANSDUCTIVE,) if method.transductive else (),
        )

    def prepare(self, episodes: Episodes) -> Session:
        """What a method is given: E sessions in one batch, each the first after session 0."""
        ways, first = episodes.classes.shape[1], len(self.tensors.base.rows)
        support = self.tensors.support[self._positions(episodes.support)]  # (E, ways, shots, copies, d)
        labels = first + torch.arange(ways, device=self.device).repeat_interleave(support[0, 0].shape[:-1].numel())
        support, labels = support.flatten(1, 3), labels.expand(len(support), -1)
        vectors = self.tensors.embeddings
        novel = None if vectors is None else vectors[first + self._positions(episodes.classes)]
        classes, seeds = range(first, first + ways), tuple(episodes.seeds.tolist())
        return sessions.session_of(support, labels, classes, embeddings=novel, seeds=seeds)

    def _score(self, method: Learner, state: State, episodes: Episodes) -> dict[str, Any]:
        """Accuracy (E,) in percent of each half's queries, among all classes and among the half's own."""
        base_items = self._positions(episodes.base_queries)
        novel_items = self._positions(episodes.novel_queries).flatten(1)
        queries = torch.cat([self.tensors.base_queries[base_items], self.tensors.novel_queries[novel_items]], dim=1)
        count, first = base_items.shape[1], state.base_count
        ways, each = episodes.novel_queries.shape[1:]
        # (E, b + ways q, C)
        scores = checked_scores(method, state, queries, len(episodes), first + ways, may_diverge=True)
        base_labels = self.base_labels[base_items]
        novel_labels = torch.arange(ways, device=self.device).repeat_interleave(each)
        right = {
            "base": scores[:, :count].argmax(-1) == base_labels,
            "novel": scores[:, count:].argmax(-1) == first + novel_labels,
            "base_alone": scores[:, :count, :first].argmax(-1) == base_labels,
            "novel_alone": scores[:, count:, first:].argmax(-1) == novel_labels,
        }
        return {name: 100 * hits.double().mean(1).cpu().numpy() for name, hits in right.items()}

    def _positions(self, array: NDArray[np.int64]) -> Tensor:
        return torch.tensor(array, device=self.device)
