"""The multi-session protocol: base classes, then session after session of novel ones, measured on all classes seen."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.engine import sessions
from subspan.engine.contract import Learner, Memory, Session, State
from subspan.experiments.inputs import (
    FeatureTensors,
    ProtocolError,
    check_inputs,
    digest_of,
    items_by_class,
    weight_space,
)
from subspan.experiments.metrics import group_means
from subspan.experiments.results import MethodResult, WeightSpace
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import spec_of
from subspan.values import check_options, option


@dataclass(frozen=True)
class MultiSession:
    """How the sessions of a feature file are drawn. Novel classes come in file order, ``ways`` at a time."""

    ways: int = option(5, "novel classes per session")
    shots: int = option(5, "support images per novel class")
    draws: int = option(5, "random support draws; 0 takes the first images in file order")
    seed: int = option(0, "seed of the draws and of the rows' start")
    dtype: Literal["float32", "float64"] = option("float32", "arithmetic")

    def __post_init__(self) -> None:
        check_options(self, at_least={1: ("ways", "shots"), 0: ("draws", "seed")}, error=ProtocolError)

    @property
    def digest(self) -> str:
        """A short hash of all settings, stamped on every result."""
        return digest_of("multi-session", self)

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
        on_session: Callable[[int], object] | None = None,
        keep_predictions: bool = False,
    ) -> MethodResult:
        """Run all sessions of one file; all draws are solved at once.

        Parameters
        ----------
        embeddings : of all classes (C0 + C1, e), base first, for methods that need them.
        on_session : called with the number of each session that is done.
        keep_predictions : keep every predicted class.
        """
        options = {"memory": memory, "device": device, "on_session": on_session}
        return run_together([(self, features, embeddings)], method, keep_predictions=keep_predictions, **options)[0]


RANDOM = MultiSession(draws=1)  # the paper's on a random split: one support draw
FIXED = MultiSession(draws=0)  # and on the fixed split: the listed images


def run_together(
    files: Sequence[tuple[MultiSession, FeatureSet, NDArray | None]],
    method: Learner,
    *,
    memory: bool,
    device: str | torch.device = "cpu",
    on_session: Callable[[int], object] | None = None,
    keep_predictions: bool = False,
) -> list[MethodResult]:
    """Run several files, (protocol, features, embeddings) each, in step: all their draws are solved at once.

    They must have the same number of sessions. What the solving takes counts for each by its share of the draws.
    """
    runs = [_Run(protocol, file, method, memory, vectors, torch.device(device)) for protocol, file, vectors in files]
    draws = sum(len(run.images) for run in runs)
    for session in range(1, runs[0].session_count + 1):
        prepared = []
        for run in runs:
            with run.timed():
                prepared.append(run.prepare(session))
        began = time.perf_counter()
        states = method.learn_together(prepared)
        solving = time.perf_counter() - began
        for run, state in zip(runs, states, strict=True):
            run.seconds += solving * len(run.images) / draws
            with run.timed():
                run.accept(session, state)
        if on_session is not None:
            on_session(session)
    return [run.result(keep_predictions) for run in runs]


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
        began = time.perf_counter()
        self.protocol, self.method, self.memory = protocol, method, memory
        self.features, self.device = features, device
        self.session_count = -(-features.novel_count // protocol.ways)
        check_inputs(features, method, memory, embeddings)
        self.tensors = FeatureTensors.of(
            features, embeddings, use_bias=method.uses_bias, device=device, dtype=getattr(torch, protocol.dtype)
        )
        self.base, self.embeddings = self.tensors.base, self.tensors.embeddings
        self.images = self._draw_images()  # (E, C1, shots)
        draws = len(self.images)
        self.state = sessions.start(method, self.base, draws)

        self.queries = torch.cat([self.tensors.base_queries, self.tensors.novel_queries])
        self.query_labels = np.concatenate(
            [features.base_test_labels, features.base_count + features.novel_test_labels]
        )
        self.predictions: list[NDArray[np.int64]] = []  # per session (E, queries of the classes seen)
        self._measure()
        self.steps: list[NDArray] = []
        self.weight_space: WeightSpace | None = None
        self.seconds = time.perf_counter() - began

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count what the block takes among the seconds of this run."""
        began = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - began

    def prepare(self, session: int) -> tuple[State, Session]:
        """What the method is given for session t > 0, in all draws."""
        first, draws = self._seen_classes(session - 1), len(self.images)
        classes = range(first, self._seen_classes(session))
        novel = range(first - self.features.base_count, classes.stop - self.features.base_count)
        base_memory, novel_memory = self._memory(novel.start)
        prepared = sessions.session_of(
            *self._support(novel),
            classes,
            base_memory=base_memory,
            novel_memory=novel_memory,
            embeddings=None if self.embeddings is None else self.embeddings[list(classes)],
            seeds=tuple(sessions.seed_of(self.protocol.seed, draw, session) for draw in range(draws)),
        )
        return self.state, prepared

    def accept(self, session: int, state: State) -> None:
        """Take over the state after a session and measure."""
        self.state = state
        self.steps.append(sessions.steps_of(state, len(self.images)).numpy())
        self._measure()
        if session == 1:
            classes = range(self.features.base_count, self._seen_classes(1))
            embeddings = None if self.embeddings is None else self.embeddings[list(classes)]
            self.weight_space = weight_space(self.method, state, embeddings, self.features.class_names[: classes.stop])

    def result(self, keep_predictions: bool) -> MethodResult:
        base_count, ways = self.features.base_count, self.protocol.ways
        counts = [self._seen_classes(session) for session in range(self.session_count + 1)]
        if self.method.scores_apart:
            with self.timed():
                self._measure_all(counts)
        draws = len(self.images)
        sessions = np.where(self.query_labels < base_count, 0, 1 + (self.query_labels - base_count) // ways)
        accuracy, class_mean, novel, session_mean = np.full((4, draws, self.session_count + 1), np.nan)
        # by_session[e, t, s]: accuracy on the classes of session s after session t
        by_session = np.full((draws, self.session_count + 1, self.session_count + 1), np.nan)
        confusion = np.zeros((self.session_count + 1, counts[-1], counts[-1]), np.int64)
        for t, predicted in enumerate(self.predictions):
            seen = self.query_labels < counts[t]
            labels, session_of = self.query_labels[seen], sessions[seen]
            right = predicted == labels  # (E, items)
            accuracy[:, t] = 100 * right.mean(1)
            class_mean[:, t] = 100 * group_means(right.T, labels).mean(0)
            by_session[:, t, np.unique(session_of)] = 100 * group_means(right.T, session_of).T
            if session_of.any():
                novel[:, t] = 100 * right[:, session_of > 0].mean(1)
                session_mean[:, t] = np.nanmean(by_session[:, t, 1:], axis=1)
            pairs, classes = labels * counts[-1] + predicted, counts[-1]
            confusion[t] = np.bincount(pairs.ravel(), minlength=classes**2).reshape(classes, classes)
        with_novel = by_session[:, 1:, 1:]
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
            seconds=self.seconds,
            protocol=self.protocol.digest,
            splits=np.zeros(draws, np.int64),
            novel_at_birth=np.diagonal(with_novel, axis1=1, axis2=2).copy(),
            novel_at_end=with_novel[:, -1],
            confusion=confusion,
            weight_space=self.weight_space,
            final_rows=self.state.rows.double().cpu().numpy(),
            predictions=tuple(self.predictions) if keep_predictions else None,
            query_labels=self.query_labels if keep_predictions else None,
            notes=self._notes(),
        )

    def _notes(self) -> tuple[str, ...]:
        draws, shots = self.protocol.draws, self.protocol.shots
        if self.protocol.draws_of(self.features) >= draws:
            return ()
        most = f"no novel class has more than {shots} support images"
        return (f"{draws} support draws asked for, but {most}, so there is one draw.",)

    def _seen_classes(self, session: int) -> int:
        """How many classes have been learned after a session, base classes included."""
        return self.features.base_count + min(session * self.protocol.ways, self.features.novel_count)

    def _draw_images(self) -> NDArray[np.int64]:
        """Support images (E, C1, shots) of every draw: positions in ``novel_support``."""
        shots = self.protocol.shots
        places = items_by_class(self.features, "support", shots, f"{shots} shots")
        if self.protocol.draws == 0:
            return np.stack([p[:shots] for p in places])[None]
        images = []
        for draw in range(self.protocol.draws_of(self.features)):
            rng = np.random.default_rng([self.protocol.seed, draw])
            images.append(np.stack([rng.permutation(p)[:shots] for p in places]))
        return np.stack(images)

    def _support(self, novel: range) -> tuple[Tensor, Tensor]:
        """Support (E, ways * shots * copies, d) of these novel classes, and its labels."""
        chosen = torch.as_tensor(self.images[:, novel.start : novel.stop], device=self.device)  # (E, K, shots)
        support = self.tensors.support[chosen]  # (E, K, shots, copies, d)
        draws, count, shots, copies, d = support.shape
        labels = self.features.base_count + torch.arange(novel.start, novel.stop, device=self.device)
        labels = labels.repeat_interleave(shots * copies).expand(draws, -1)
        return support.reshape(draws, count * shots * copies, d), labels

    def _memory(self, earlier: int) -> tuple[Memory | None, Memory | None]:
        """One stored example per base class, and the first image, with its copies, of every earlier novel class."""
        if not self.memory:
            return None, None
        draws = len(self.images)
        assert self.tensors.base_memory is not None
        stored = self.tensors.base_memory.expand(draws, -1, -1)
        labels = torch.arange(self.features.base_count, device=self.device).expand(draws, -1)
        base = Memory(stored, labels)
        if earlier == 0:
            return base, None
        images = torch.as_tensor(self.images[:, :earlier, 0], device=self.device)
        first = self.tensors.support[images]  # (E, earlier, copies, d)
        labels = self.features.base_count + torch.arange(earlier, device=self.device)
        labels = labels.repeat_interleave(first.shape[2]).expand(draws, -1)
        return base, Memory(first.flatten(1, 2), labels)

    def _measure(self) -> None:
        """Predict every test item of the classes seen so far, unless the rows of the last session tell them all."""
        if not self.method.scores_apart:
            queries = self.queries[self._seen(self._seen_classes(len(self.predictions)))]
            scores = sessions.scores(self.method, self.state, queries)
            self.predictions.append(scores.argmax(-1).cpu().numpy())

    def _measure_all(self, counts: Sequence[int]) -> None:
        """Predict after every session, with so many classes seen, from one score of each test item by each class."""
        scores = sessions.scores(self.method, self.state, self.queries)
        for count in counts:
            self.predictions.append(scores[:, self._seen(count), :count].argmax(-1).cpu().numpy())

    def _seen(self, count: int) -> Tensor:
        """Which test items (queries,) are of the first classes."""
        return torch.as_tensor(self.query_labels < count, device=self.device)
