"""The engine: it starts learners, runs their sessions one after the other, and asks them for scores.

The estimator, the catalogue above it and both protocols go through here, with one problem or with thousands at once.
What they hand over may be NumPy arrays or tensors, and they get the same back: where a learner works with the others,
arrays are converted on the way. States that stay are converted once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import Array, Kind, as_numpy, as_tensor, functions_of, kind_of
from subspan.engine.contract import Base, Learner, Session, State


def start(learner: Learner, base: Base, problems: int | None = None) -> State:
    """What a learner knows after session 0, in a batch of so many problems or in none; base examples are not kept."""
    kept = base if base.examples is None else replace(base, examples=None, labels=None)
    state = _like(_any_array(base), learner.start(_base_in(learner.arrays, base)), kept)
    return state if problems is None else _expanded(state, problems)


def session_of(support: Array, labels: Array, classes: Sequence[int], **more: Any) -> Session:
    """A session on the classes at these places; support (*batch, n, d), labels (*batch, n), more: fields of `Session`.

    Without ``means`` those of the support are the classes' own.
    """
    from subspan.engine.statistics import class_means  # here: who only answers needs none

    more.setdefault("means", class_means(support, labels, tuple(classes)))
    return Session(support, labels, tuple(classes), **more)


def learn(learner: Learner, state: State, session: Session) -> State:
    """The state after one session."""
    if learner.only_batches and session.support.ndim == 2:
        after = learn(learner, _expanded(state, 1), session.mapped(lambda array: array[None], batched=True))
        return after.mapped(lambda array: array[0])
    return _converted(learner, [(state, session)], lambda pairs: [learner.learn(*pairs[0])])[0]


def learn_together(learner: Learner, sessions: Sequence[tuple[State, Session]]) -> list[State]:
    """The states after several sessions that have nothing to do with one another."""
    return _converted(learner, sessions, learner.learn_together)


def scores(learner: Learner, state: State, queries: Array) -> Array:
    """Scores (*batch, q, C) of queries (q, d) or (*batch, q, d), in their precision or a higher one."""
    if learner.only_batches and state.rows.ndim == 2:
        return scores(learner, _expanded(state, 1), queries)[0]
    kind = kind_of(queries)
    if kind == learner.arrays == "torch":
        return learner.scores(state_in(kind, state), queries)
    if learner.arrays == "numpy":
        asked = as_numpy(queries)
        found = learner.scores(state_in("numpy", state, asked.dtype), asked)
        return found if kind == "numpy" else as_tensor(found).to(queries.device)
    asked = as_tensor(queries)
    return as_numpy(learner.scores(state_in("torch", state, asked.dtype), asked))


def forget(learner: Learner, state: State, base: Base, places: Sequence[int]) -> State:
    """The state without the classes at these places; ``base`` is what is left of session 0."""
    own = learner.forget(state_in(learner.arrays, state), _base_in(learner.arrays, base), places)
    return _like(_any_array(base), own, base)


def combine(learner: Learner, state: State, base: Base, place: int, other: int) -> State:
    """The state with the class at the place ``other`` made part of that at ``place``; ``base`` is what is left."""
    own = learner.combine(state_in(learner.arrays, state), _base_in(learner.arrays, base), place, other)
    return _like(_any_array(base), own, base)


def unlearn(learner: Learner, state: State, places: Array, examples: Array) -> State:
    """The state without examples (n, d) that were taught as the classes at these places (n,)."""
    own = learner.unlearn(state_in(learner.arrays, state), places, _conversion(learner.arrays)(examples))
    return _like(_any_array(state.base), own, state.base)


def merge(learner: Learner, state: State, other: State) -> State:
    """What two states of the same classes, taught different examples of them, know together."""
    example = _any_array(state.base)
    own = learner.merge(state_in(learner.arrays, state), state_in(learner.arrays, other))
    return _like(example, own, _base_in(kind_of(example), own.base))


def among(learner: Learner, state: State, base: Base, places: Sequence[int]) -> State:
    """A state after session 0 with its classes at these places among those of ``base``; the others have no example."""
    own = learner.among(state_in(learner.arrays, state), _base_in(learner.arrays, base), np.asarray(places))
    return _like(_any_array(base), own, base)


def steps_of(state: State, problems: int) -> NDArray[Any]:
    """The steps (problems,) of the session that led to a state."""
    return np.broadcast_to(as_numpy(state.steps), (problems,))


def seed_of(*numbers: int) -> int:
    """One seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


# From one kind of array to the other


def state_in(kind: Kind, state: State, dtype: Any = None) -> State:
    """A state in arrays of a kind: in a floating type if one is given, but for NumPy arrays of a higher one."""
    if all(_fits(array, kind, dtype) for array in (*state.arrays.values(), _any_array(state.base))):
        return state
    change = _conversion(kind, dtype)
    return state.once((kind, dtype), lambda: replace(state.mapped(change), base=_base_in(kind, state.base, dtype)))


def exported(learner: Learner, state: State, dtype: Any) -> Callable[[Array], Array]:
    """Scores as a function of tensors (q, d) of a type, for a graph, which holds the state and what follows from it."""
    batched = learner.only_batches and state.rows.ndim == 2
    state = state_in("numpy", _expanded(state, 1) if batched else state, np.float32)
    scores(learner, state, np.zeros((1, _any_array(state.base).shape[-1]), np.float32))  # derives what answers need
    changed = state_in("torch", state, dtype)
    for record, tensors in ((state, changed), (state.base, changed.base)):
        for key, value in record.derived.items():
            tensors.derived.setdefault(key, _tensors(value, dtype))
    return lambda queries: learner.scores(changed, queries)[0] if batched else learner.scores(changed, queries)


def _tensors(value: Any, dtype: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_tensors(part, dtype) for part in value)
    return as_tensor(value, dtype) if isinstance(value, np.ndarray) else value


def _base_in(kind: Kind, base: Base, dtype: Any = None) -> Base:
    if _fits(_any_array(base), kind, dtype):
        return base
    return base.once((kind, dtype), lambda: base.mapped(_conversion(kind, dtype)))


def _conversion(kind: Kind, dtype: Any = None) -> Callable[[Array], Array]:
    return lambda array: as_numpy(array, dtype) if kind == "numpy" else as_tensor(array, dtype)


def _fits(array: Array, kind: Kind, dtype: Any) -> bool:
    if kind_of(array) != kind:
        return False
    if dtype is None or "float" not in str(array.dtype):
        return True
    return array.dtype == (dtype if kind == "torch" else np.promote_types(array.dtype, dtype))


def _any_array(base: Base) -> Array:
    return base.means if base.rows is None else base.rows


def _converted(
    learner: Learner,
    pairs: Sequence[tuple[State, Session]],
    run: Callable[[list[tuple[State, Session]]], list[State]],
) -> list[State]:
    """Run sessions in the learner's own kind of array; states come back in the kind they had."""
    change = _conversion(learner.arrays)
    if all(kind_of(session.support) == learner.arrays for _, session in pairs):
        return run(list(pairs))
    own = [(state_in(learner.arrays, state), session.mapped(change)) for state, session in pairs]
    return [_like(session.support, after, state.base) for (state, session), after in zip(pairs, run(own), strict=True)]


def _like(example: Array, state: State, base: Base) -> State:
    """A state on this base, with arrays of the kind of an example and on its device."""
    if all(kind_of(array) == kind_of(example) for array in state.arrays.values()):
        return state if state.base is base else replace(state, base=base)
    if kind_of(example) == "torch":
        return replace(state.mapped(lambda array: as_tensor(array).to(example.device)), base=base)
    steps, loss = as_numpy(state.steps), None if state.loss is None else as_numpy(state.loss)
    return replace(state.mapped(as_numpy), base=base, steps=steps, loss=loss)


def _expanded(state: State, count: int) -> State:
    """The same for a batch of so many problems; nothing is copied."""
    return state.mapped(lambda array: functions_of(array).broadcast_to(array, (count, *array.shape)))
