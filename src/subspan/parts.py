"""A base session that came in parts: two states become the one that all examples at once would have made."""

from dataclasses import replace

import numpy as np

from subspan.arrays import FloatArray
from subspan.engine import sessions
from subspan.engine.contract import Base, Learner
from subspan.learners.registry import spec_of
from subspan.state import ModelState


def check_joins(learner: Learner, memory: int) -> None:
    """Refuse what takes a base session at once only."""
    if type(learner).among is Learner.among:
        raise ValueError(
            f"method '{spec_of(learner)}' cannot learn a base session in parts: it keeps no sums that add up; use fit"
        )
    if memory:
        raise ValueError(f"a base session in parts keeps no examples; set memory=0; got {memory}")


def joined(learner: Learner, memory: int, one: ModelState, other: ModelState) -> ModelState:
    """What a model knows whose base session had the examples of both; classes in the order of their names."""
    check_joins(learner, memory)
    if one.width != other.width:
        raise ValueError(
            f"X has {other.width} features, but IncrementalClassifier is expecting {one.width} features as input"
        )
    if len(one.classes) > one.base_count or len(other.classes) > other.base_count:
        raise ValueError("the base session is over once classes were added; add_examples takes more of known ones")
    classes = tuple(np.unique([*one.classes, *other.classes]).tolist())
    place = {name: number for number, name in enumerate(classes)}
    places = [[place[name] for name in state.classes] for state in (one, other)]
    counts = np.zeros(len(classes), np.int64)
    sums: FloatArray = np.zeros((len(classes), one.width))
    for state, own in zip((one, other), places, strict=True):
        counts[own] += state.counts
        sums[own] += state.counts[:, None] * state.base.means.astype(np.float64)
    sums /= counts[:, None]
    means = sums.astype(one.base.means.dtype)
    base = Base(None if one.base.rows is None else means, means, origin=means.mean(0))
    aligned = [sessions.among(learner, s.learned, base, own) for s, own in zip((one, other), places, strict=True)]
    learned = sessions.merge(learner, *aligned)
    was, more = one.record, other.record
    record = replace(
        was, classes=classes, examples=was.examples + more.examples, seconds=round(was.seconds + more.seconds, 3)
    )
    return replace(one, classes=classes, learned=learned, counts=counts, record=record)
