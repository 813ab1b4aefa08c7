"""The multi-session protocol: base classes, then session after session of novel ones, measured on all classes seen."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.engine import sessions
from subspan.engine.contract import Learner, Memory, Session, State
from subspan.experiments.answers import checked_scores
from subspan.experiments.inputs import (
    FeatureTensors,
    ProtocolError,
    check_inputs,
    digest_of,
    items_by_class,
    weight_space,
)
from subspan.experiments.metrics import forgetting_since_birth, group_means
from subspan.experiments.orders import in_order, order_by_names, shuffled_order
from subspan.experiments.records import TRANSDUCTIVE, Predictions, WeightSpace
from subspan.experiments.results import MethodResult
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import spec_of
from subspan.values import check_options, option


@dataclass(frozen=True)
class MultiSession:
    """How the sessions of a feature file are drawn. Novel classes come in file order, ``ways`` at a time by default."""

    ways: int = option(5, "novel classes per session")
    shots: int = option(5, "support images per novel class")
    draws: int = option(5, "random support draws; 0 takes the first images in file order")
    seed: int = option(0, "seed of the draws and of the rows' start")
    dtype: Literal["float32", "float64"] = option("float32", "arithmetic")
    sessions: tuple[int, ...] = option((), "novel classes of each session, as 10,5,5,3, instead of --ways")
    order_seed: int | None = option(None, "shuffle the novel classes by this seed; default the file's order")
    orders: int = option(1, "so many shuffled orders, of this and the next seeds; their spread is told")
    order: tuple[str, ...] = ()  # the names of all novel classes in the order in which they come

    later = ("sessions", "order_seed", "orders", "order")  # settings that older results lack

    def __post_init__(self) -> None:
        check_options(self, at_least={1: ("ways", "shots", "orders"), 0: ("draws", "seed")}, error=ProtocolError)
        if any(size < 1 for size in self.sessions):
            raise ProtocolError(f"each of --sessions must be at least 1; got {', '.join(map(str, self.sessions))}")
        if self.order and (self.orders > 1 or self.order_seed is not None):
            raise ProtocolError("an order of the classes is named or shuffled, not both")

    @property
    def digest(self) -> str:
        """A short hash of all settings, stamped on every result."""
        return digest_of("multi-session", self)

    def ends(self, features: FeatureSet) -> list[int]:
        """How many novel classes have come after each session, from session 0."""
        count = features.novel_count
        if not self.sessions:
            return [*range(0, count, self.ways), count]
        if sum(self.sessions) > count:
            raise ProtocolError(f"--sessions ask for {sum(self.sessions)} novel classes; the file has {count}")
        return np.cumsum([0, *self.sessions]).tolist()

    def in_orders(self, features: FeatureSet, embeddings: NDArray | None) -> list[tuple[FeatureSet, NDArray | None]]:
        """The features, and embeddings (C0 + C1, e), with their novel classes in each order."""
        if self.order:
            return [in_order(features, embeddings, order_by_names(features, self.order))]
        if self.orders == 1 and self.order_seed is None:
            return [(features, embeddings)]
        first = self.order_seed or 0
        places = [shuffled_order(features.novel_count, seed) for seed in range(first, first + self.orders)]
        return [in_order(features, embeddings, order) for order in places]

    def draws_of(self, features: FeatureSet) -> int:
        """How many support draws a file gives: one where no class has more support images than shots."""
        most = np.bincount(features.novel_support_labels).max()
        return 1 if most <= self.shots else max(1, self.draws)

    def run(
        self,
        features: FeatureSet,
        method: Learner,
        *,
        memory: bool,
        embeddings: NDArray | None = None,
        device: str | torch.device = "cpu",
        keep_predictions: bool = False,
    ) -> MethodResult:
        """Run all sessions of one file; all draws are solved at once.

        Parameters
        ----------
        embeddings : of all classes (C0 + C1, e), base first, for methods that need them.
        keep_predictions : keep every predicted class.
        """
        options = {"memory": memory, "device": device, "keep_predictions": keep_predictions}
        return run_together([(self, features, embeddings)], method, **options)[0]


RANDOM = MultiSession(draws=1)  # the paper's on a random split: one support draw
FIXED = MultiSession(draws=0)  # and on the fixed split: the listed images


def run_together(
    files: Sequence[tuple[MultiSession, FeatureSet, NDArray | None]],
    method: Learner,
    *,
    memory: bool,
    device: str | torch.device = "cpu",
    keep_predictions: bool = False,
) -> list[MethodResult]:
    """Run several files, (protocol, features, embeddings) each, in step: all their draws are solved at once.

    They must have the same number of sessions. The seconds count for each by its share of the draws.
    """
    began = time.perf_counter()
    ordered = [[(protocol, *one) for one in protocol.in_orders(features, of)] for protocol, features, of in files]
    runs = [
        _Run(protocol, features, method, memory, vectors, torch.device(device))
        for of_file in ordered
        for protocol, features, vectors in of_file
    ]
    for session in range(1, len(runs[0].counts)):
        states = sessions.learn_together(method, [run.prepare(session) for run in runs])
        for run, state in zip(runs, states, strict=True):
            run.accept(session, state)
    each = (run.result(keep_predictions) for run in runs)
    results = [MethodResult.joined([next(each) for _ in of_file], by="orders") for of_file in ordered]
    of_a_draw = (time.perf_counter() - began) / sum(len(result.base) for result in results)
    return [replace(result, seconds=of_a_draw * len(result.base)) for result in results]


class _Run:
    """One method on one file: state and measurements over the sessions. E draws run as one batch."""

    def __init__(
        self,
        protocol: MultiSession,
        features: FeatureSet,
        method: Learner,
        memory: bool,
        embeddings: NDArray | None,
        device: torch.device,
    ) -> None:
        self.protocol, self.method, self.memory = protocol, method, memory
        self.features, self.device = features, device
        self.counts = [features.base_count + end for end in protocol.ends(features)]  # classes seen after each session
        check_inputs(features, method, memory, embeddings)
        self.tensors = FeatureTensors.of(
            features, embeddings, use_bias=method.uses_bias, device=device, dtype=getattr(torch, protocol.dtype)
        )
        self.images = self._draw_images()  # (E, C1, shots)
        self.state = sessions.start(method, self.tensors.base, len(self.images))
        labels = np.concatenate([features.base_test_labels, features.base_count + features.novel_test_labels])
        asked = labels < self.counts[-1]  # classes that no session has are left out
        self.queries = torch.cat([self.tensors.base_queries, self.tensors.novel_queries])[torch.as_tensor(asked)]
        self.query_labels = labels[asked]
        self.predictions: list[NDArray[np.int64]] = []  # per session (E, queries of the classes seen)
        self._measure()
        self.steps: list[NDArray] = []
        self.weight_space: WeightSpace | None = None

    def prepare(self, session: int) -> tuple[State, Session]:
        """What the method is given for session t > 0, in all draws."""
        classes = range(*self.counts[session - 1 : session + 1])
        novel = range(classes.start - self.features.base_count, classes.stop - self.features.base_count)
        base_memory, novel_memory = self._memory(novel.start)
        prepared = sessions.session_of(
            *self._support(novel),
            classes,
            base_memory=base_memory,
            novel_memory=novel_memory,
            embeddings=self._embeddings(classes),
            seeds=tuple(sessions.seed_of(self.protocol.seed, draw, session) for draw in range(len(self.images))),
        )
        return self.state, prepared

    def accept(self, session: int, state: State) -> None:
        """Take over the state after a session and measure."""
        self.state = state
        self.steps.append(sessions.steps_of(state, len(self.images)))
        self._measure()
        if session == 1:
            names, vectors = self.features.class_names[: self.counts[1]], self._embeddings(range(*self.counts[:2]))
            self.weight_space = weight_space(self.method, state, vectors, names)

    def result(self, keep_predictions: bool) -> MethodResult:
        draws, counts = len(self.images), self.counts
        if self.method.scores_apart:  # the rows of the last session tell all
            scores = checked_scores(self.method, self.state, self.queries, draws, counts[-1])
            self.predictions = [scores[:, self._seen(c), :c].argmax(-1).cpu().numpy() for c in counts]
        of_session = np.searchsorted(counts, self.query_labels, side="right")
        accuracy, class_mean, novel, session_mean = np.full((4, draws, len(counts)), np.nan)
        # by_session[e, t, s]: accuracy on the classes of session s after session t
        by_session = np.full((draws, len(counts), len(counts)), np.nan)
        confusion = np.zeros((len(counts), counts[-1], counts[-1]), np.int64)
        for t, predicted in enumerate(self.predictions):
            seen = self.query_labels < counts[t]
            labels, session_of = self.query_labels[seen], of_session[seen]
            right = predicted == labels  # (E, items)
            accuracy[:, t] = 100 * right.mean(1)
            class_mean[:, t] = 100 * group_means(right.T, labels).mean(0)
            by_session[:, t, np.unique(session_of)] = 100 * group_means(right.T, session_of).T
            if session_of.any():
                novel[:, t] = 100 * right[:, session_of > 0].mean(1)
                session_mean[:, t] = np.nanmean(by_session[:, t, 1:], axis=1)
            pairs = labels * counts[-1] + predicted
            confusion[t] = np.bincount(pairs.ravel(), minlength=counts[-1] ** 2).reshape(confusion[t].shape)
        born = np.diagonal(by_session, axis1=1, axis2=2).copy()  # of each session's classes, when they were learned
        return MethodResult(
            method=spec_of(self.method),
            memory=self.memory,
            class_counts=tuple(counts),
            accuracy=accuracy,
            class_mean=class_mean,
            base=by_session[:, :, 0],
            novel=novel,
            novel_session_mean=session_mean,
            steps=np.stack(self.steps, axis=1).astype(np.float64),
            seconds=0.0,
            protocol=self.protocol.digest,
            splits=np.zeros(draws, np.int64),
            forgetting=np.stack(
                [forgetting_since_birth(born[:, : t + 1], by_session[:, t, : t + 1]) for t in range(len(counts))],
                axis=1,
            ),
            confusion=confusion,
            weight_space=self.weight_space,
            final_rows=None if (rows := self.state.get("rows")) is None else rows.double().cpu().numpy(),
            predictions=(Predictions(self.query_labels, self.features.class_names, tuple(self.predictions)),)
            if keep_predictions
            else None,
            notes=self._notes(),
        )

    def _notes(self) -> tuple[str, ...]:
        marks = (TRANSDUCTIVE,) if self.method.transductive else ()
        if left_out := len(self.features.class_names) - self.counts[-1]:
            marks += (f"{left_out} novel classes are in no session.",)
        draws, shots = self.protocol.draws, self.protocol.shots
        if self.protocol.draws_of(self.features) >= draws:
            return marks
        most = f"no novel class has more than {shots} support images"
        return (*marks, f"{draws} support draws asked for, but {most}, so there is one draw.")

    def _draw_images(self) -> NDArray[np.int64]:
        """Support images (E, C1, shots) of every draw: positions in ``novel_support``."""
        shots, seed = self.protocol.shots, self.protocol.seed
        places = items_by_class(self.features, "support", shots, f"{shots} shots")
        if self.protocol.draws == 0:
            return np.stack([place[:shots] for place in places])[None]
        drawn = (np.random.default_rng([seed, draw]) for draw in range(self.protocol.draws_of(self.features)))
        return np.stack([np.stack([rng.permutation(place)[:shots] for place in places]) for rng in drawn])

    def _support(self, novel: range) -> tuple[Tensor, Tensor]:
        """Support (E, ways * shots * copies, d) of these novel classes, and its labels."""
        return self._examples(novel, self.protocol.shots)

    def _examples(self, novel: range, images: int) -> tuple[Tensor, Tensor]:
        """The first images of these novel classes with all their copies (E, n, d), and their labels (E, n)."""
        chosen = torch.as_tensor(self.images[:, novel.start : novel.stop, :images], device=self.device)
        found = self.tensors.support[chosen]  # (E, K, images, copies, d)
        labels = self.features.base_count + torch.arange(novel.start, novel.stop, device=self.device)
        labels = labels.repeat_interleave(images * found.shape[3]).expand(len(found), -1)
        return found.flatten(1, 3), labels

    def _memory(self, earlier: int) -> tuple[Memory | None, Memory | None]:
        """One stored example per base class, and the first image, with its copies, of every earlier novel class."""
        if not self.memory:
            return None, None
        draws = len(self.images)
        assert self.tensors.base_memory is not None
        labels = torch.arange(self.features.base_count, device=self.device).expand(draws, -1)
        base = Memory(self.tensors.base_memory.expand(draws, -1, -1), labels)
        return base, Memory(*self._examples(range(earlier), 1)) if earlier else None

    def _embeddings(self, classes: range) -> Tensor | None:
        return None if self.tensors.embeddings is None else self.tensors.embeddings[list(classes)]

    def _measure(self) -> None:
        """Predict every test item of the classes seen so far, unless the last session will tell."""
        if not self.method.scores_apart:
            count = self.counts[len(self.predictions)]
            queries = self.queries[self._seen(count)]
            scores = checked_scores(self.method, self.state, queries, len(self.images), count)
            self.predictions.append(scores.argmax(-1).cpu().numpy())

    def _seen(self, count: int) -> Tensor:
        """Which test items (queries,) are of the first classes."""
        return torch.as_tensor(self.query_labels < count, device=self.device)
