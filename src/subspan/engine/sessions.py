"""The engine: it starts learners, runs their sessions one after the other, and asks them for scores.

The estimator, the catalogue above it and both protocols go through here, with one problem or with thousands at once.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from subspan.engine.contract import Base, Learner, Memory, Session, State
from subspan.engine.statistics import class_means


def start(learner: Learner, base: Base, problems: int | None = None) -> State:
    """What a learner knows after session 0, in a batch of so many problems or in none."""
    state = learner.start(base)
    return state if problems is None else state.expanded(problems)


def session_of(support: Tensor, labels: Tensor, classes: Sequence[int], **more: Any) -> Session:
    """A session on the classes at these places; support (*batch, n, d), labels (*batch, n), more: fields of `Session`.

    Without ``means`` those of the support are the classes' own.
    """
    more.setdefault("means", class_means(support, labels, tuple(classes)))
    return Session(support, labels, tuple(classes), **more)


def learn(learner: Learner, state: State, session: Session) -> State:
    """The state after one session."""
    if learner.only_batches and session.support.ndim == 2:
        after = learner.learn(state.expanded(1), _as_batch(session))
        return after.mapped(lambda array: array[0])
    return learner.learn(state, session)


def scores(learner: Learner, state: State, queries: Tensor) -> Tensor:
    """Scores (*batch, q, C) of queries (q, d) or (*batch, q, d)."""
    if learner.only_batches and state.rows.ndim == 2:
        return learner.scores(state.expanded(1), queries)[0]
    return learner.scores(state, queries)


def steps_of(state: State, problems: int) -> Tensor:
    """The steps (problems,) of the session that led to a state."""
    return torch.as_tensor(state.steps).expand(problems).cpu()


def seed_of(*numbers: int) -> int:
    """One seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _as_batch(session: Session) -> Session:
    """A single problem as a batch of one."""

    def memory(part: Memory | None) -> Memory | None:
        return None if part is None else Memory(part.features[None], part.labels[None])

    return replace(
        session,
        support=session.support[None],
        labels=session.labels[None],
        means=session.means[None],
        base_memory=memory(session.base_memory),
        novel_memory=memory(session.novel_memory),
    )
