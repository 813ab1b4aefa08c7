"""What a model knows after a session: an immutable state, its record, and its form in a store."""

import datetime
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.engine import sessions
from subspan.engine.contract import Base, Learner, State
from subspan.files import store
from subspan.learners.registry import create_method, spec_of
from subspan.values import length, plain_label

EXTRA = "extra."  # before the names of arrays that callers add to a version
BASE, LEARNED = "base.", "learned."  # before those of session 0, and of what the learner keeps

# Root mean square length of base rows in the paper's network: their unit where no features are known that would give
# it by `FEATURE_LENGTH` of `values.py`.
ROW_LENGTH = 2.3


@dataclass(frozen=True)
class SessionRecord:
    """What happened in one session of a model."""

    kind: Literal[
        "base", "add_classes", "add_examples", "rename_class", "remove_class", "merge_classes", "remove_examples"
    ]
    classes: tuple[Any, ...]
    examples: int
    steps: int
    seconds: float
    date: str  # UTC, ISO 8601
    method: str | None = None  # that learned, with its options; None where nothing is learned, and in older stores


@dataclass(frozen=True)
class ModelState:
    """Everything a model knows after a session, in NumPy arrays. States never change; a session makes a new one."""

    classes: tuple[Any, ...]  # in the order of their places
    with_bias: bool  # features get a 1 appended
    learned: State  # of the learner
    novel_means: FloatArray  # (C1, d): d counts a bias
    counts: NDArray[np.int64]  # (C,): examples seen; 0 where unknown
    memory_features: FloatArray  # (m, d)
    memory_labels: NDArray[np.int64]  # (m,)
    embeddings: FloatArray | None  # (C, e)
    record: SessionRecord
    scale: float | None = None  # the unit of all features and rows here; None: as they were given

    @property
    def base(self) -> Base:
        return self.learned.base

    @property
    def base_count(self) -> int:
        return self.learned.base_count

    @property
    def width(self) -> int:
        """Width of the features, a bias not counted."""
        return self.novel_means.shape[1] - self.with_bias

    @property
    def given(self) -> frozenset[str]:
        """What of session 0 that a method may need is there."""
        return frozenset(name for name in NEEDS if getattr(self.base, name) is not None)

    def check_needs(self, method: Learner) -> None:
        """Refuse a method that needs what the base session did not give, unless it was taught from examples."""
        if method.from_sums and self.learned.get("own") is not None:
            return
        for need in NEEDS:
            if need in method.needs - self.given:
                raise ValueError(f"method '{spec_of(method)}' needs {need} of the base classes; pass {need}=...")

    def means_of(self, classes: NDArray[np.int64]) -> FloatArray:
        """Mean features (K, d) of these classes; NaN where the model has seen none."""
        means = np.full((len(classes), self.novel_means.shape[1]), np.nan, self.novel_means.dtype)
        is_base = classes < self.base_count
        if self.base.means is not None:
            means[is_base] = self.base.means[classes[is_base]]
        means[~is_base] = self.novel_means[classes[~is_base] - self.base_count]
        return means

    def base_without(self, index: int) -> Base:
        """What is left of session 0 without the class at a place."""
        kept = np.arange(self.base_count) != index
        parts = {name: getattr(self.base, name) for name in ("rows", "means", "embeddings")}
        return replace(self.base, **{name: part[kept] for name, part in parts.items() if part is not None})

    def without(self, index: int, learned: State, record: SessionRecord) -> "ModelState":
        """The state without the class at a place, of which the learner knows nothing any more."""
        keep, remembered = np.arange(len(self.classes)) != index, self.memory_labels != index
        labels = self.memory_labels[remembered]
        return replace(
            self,
            classes=(*self.classes[:index], *self.classes[index + 1 :]),
            learned=learned,
            novel_means=self.novel_means[keep[self.base_count :]],
            counts=self.counts[keep],
            memory_features=self.memory_features[remembered],
            memory_labels=labels - (labels > index),
            embeddings=None if self.embeddings is None else self.embeddings[keep],
            record=record,
        )

    def combined(self, place: int, other: int, name: Any) -> "ModelState":
        """The state with all of the class at ``other`` counted for that at ``place``, which gets this name."""
        counts, means = self.counts.copy(), self.novel_means.copy()
        if place >= self.base_count:
            ours, theirs = place - self.base_count, other - self.base_count
            means[ours] += counts[other] / max(counts[place] + counts[other], 1) * (means[theirs] - means[ours])
        counts[place] += counts[other]
        labels = np.where(self.memory_labels == other, place, self.memory_labels)
        classes = (*self.classes[:place], name, *self.classes[place + 1 :])
        return replace(self, classes=classes, counts=counts, novel_means=means, memory_labels=labels)

    def taken_over(self, learner: Learner) -> "ModelState":
        """The state for another learner than it was made by: its rows go on under the other's rules."""
        refusal = f"method '{spec_of(learner)}' cannot go on from what '{self.record.method}' learned; start with it"
        if learner.from_sums or self.base.rows is None or "rows" not in self.learned.arrays:
            raise ValueError(refusal)
        state = self.in_a_unit() if learner.depends_on_scale else self
        begun, rows = sessions.start(learner, state.base), state.learned.rows
        same = set(begun.arrays) - {"references"} == set(state.learned.arrays) - {"references"}
        if not same or begun.rows.shape[1] != rows.shape[1]:
            raise ValueError(refusal)
        arrays = {**begun.arrays, "rows": rows}
        if "references" in arrays:
            arrays["references"] = np.concatenate([begun.rows, rows[state.base_count :]])
        return replace(state, learned=State(state.base, arrays))

    def in_a_unit(self) -> "ModelState":
        """The state in a unit: where none is set, in the one that gives base rows the paper's length."""
        if self.scale is not None:
            return self
        base, scale = self.base, ROW_LENGTH / (length(self.base.rows[:, : self.width]) or ROW_LENGTH)
        unit = np.full(base.rows.shape[1:], scale, base.rows.dtype)
        unit[self.width :] = 1  # of a bias
        learned = self.learned.mapped(lambda array: array * unit)
        scaled = Base(
            rows=base.rows * unit,
            means=None if base.means is None else base.means / unit,
            embeddings=base.embeddings,
            origin=None if base.origin is None else base.origin / unit,
            covariance=None if base.covariance is None else base.covariance / scale**2,
        )
        means, memory = self.novel_means / unit, self.memory_features / unit
        return replace(
            self, scale=scale, learned=replace(learned, base=scaled), novel_means=means, memory_features=memory
        )

    def to_version(
        self,
        records: Sequence[SessionRecord],
        parameters: Mapping[str, Any],
        extra_arrays: Mapping[str, NDArray[Any]] | None = None,
        extra_meta: Mapping[str, Any] | None = None,
    ) -> store.Version:
        """This state as a version of a store, with the records of all sessions up to it and what callers add."""
        own = {f"{BASE}{f.name}": getattr(self.base, f.name) for f in fields(self.base) if f.init}
        own |= {f"{LEARNED}{name}": array for name, array in self.learned.arrays.items()}
        own |= {name: getattr(self, name) for name in _OWN}
        first: dict[int, str] = {}  # what is one array is stored once
        same = {name: first.setdefault(id(array), name) for name, array in own.items() if array is not None}
        arrays = {name: own[name] for name in first.values()}
        arrays |= {f"{EXTRA}{name}": array for name, array in (extra_arrays or {}).items()}
        meta = {
            "parameters": dict(parameters),
            "n_features_in": self.width,
            "classes": list(self.classes),
            "base_count": self.base_count,
            "with_bias": self.with_bias,
            "scale": self.scale,
            "same": {name: stored for name, stored in same.items() if name != stored},
            "sessions": [vars(record) for record in records],
        }
        if extra_meta is not None:
            meta["extra"] = dict(extra_meta)
        return store.make_version(arrays, meta)

    @classmethod
    def from_version(cls, version: store.Version) -> "ModelState":
        """The state that `to_version` made a version of, or anybody else: what cannot be one is refused."""
        meta = version.meta
        check_meta(meta)
        own: dict[str, Any] = {name: array for name, array in version.arrays.items() if not name.startswith(EXTRA)}
        with_bias = meta["with_bias"]
        if "rows" in own:
            own, with_bias = _of_version_0_1(own, with_bias, records_of(version)[0].method)
        own |= {name: own[stored] for name, stored in meta.get("same", {}).items()}

        def part(prefix: str) -> dict[str, Any]:
            return {name.removeprefix(prefix): array for name, array in own.items() if name.startswith(prefix)}

        state = cls(
            classes=tuple(meta["classes"]),
            with_bias=with_bias,
            learned=State(Base(**part(BASE)), part(LEARNED)),
            record=records_of(version)[-1],
            scale=meta.get("scale", 1.0),  # version 0.1 learned from features as they were given
            embeddings=own.get("embeddings"),
            **{name: own[name] for name in _OWN if name != "embeddings"},
        )
        state.check_arrays()
        if state.base_count != meta["base_count"]:
            raise store.StoreError(f"'base_count' is {state.base_count} by the arrays; got {meta['base_count']}")
        return state

    def check_arrays(self) -> None:
        """Refuse arrays that do not fit one another; they may come from anybody."""
        count, width = len(self.classes), self.novel_means.shape[-1]
        base = {name: getattr(self.base, name) for name in ("rows", "means", "embeddings")}
        base = {name: array for name, array in base.items() if array is not None}
        novel = count - (len(next(iter(base.values()))) if base else 0)
        wanted = {
            "novel_means": (self.novel_means, (novel, width), "f"),
            "counts": (self.counts, (count,), "iu"),
            "memory_features": (self.memory_features, (len(self.memory_labels), width), "f"),
            "memory_labels": (self.memory_labels, (self.memory_labels.size,), "iu"),
        }
        wanted |= {f"{BASE}{name}": (array, (count - novel, array.shape[-1]), "f") for name, array in base.items()}
        if (rows := self.learned.get("rows")) is not None:
            wanted[f"{LEARNED}rows"] = rows, (count, *(rows.shape[1:] or (width,))), "f"
        for name, (array, shape, kinds) in wanted.items():
            if array.shape != shape or array.dtype.kind not in kinds:
                raise store.StoreError(f"array '{name}' must be {shape} numbers; got {array.shape} of {array.dtype}")
            if kinds == "f" and (array.dtype.itemsize < 4 or not np.isfinite(array).all()):
                raise store.StoreError(f"array '{name}' must be finite float32 or float64; got {array.dtype}")
        if not base or not 1 <= self.base_count <= count:
            raise store.StoreError(f"from 1 to {count} classes must be of the base session, and have rows or means")
        if self.memory_labels.size and not 0 <= self.memory_labels.min() <= self.memory_labels.max() < count:
            raise store.StoreError(f"array 'memory_labels' must name places of {count} classes")


META = {"parameters": dict, "n_features_in": int, "classes": list, "with_bias": bool, "sessions": list}
RECORD = {"kind": str, "classes": (list, tuple), "examples": int, "steps": int, "seconds": (int, float), "date": str}


def check_meta(meta: Mapping[str, Any]) -> None:
    """Refuse what a version says of a model where that cannot be."""
    for name, kind in META.items():
        value: Any = meta.get(name)
        sound = type(value) is kind
        if sound and name == "classes":
            sound = any(all(isinstance(one, kind) for one in value) for kind in (str, bool, int | float))
            sound = sound and 0 < len(set(value)) == len(value)
        if sound and name == "sessions":
            sound = len(value) > 0 and all(isinstance(one, dict) and one.keys() <= {*RECORD, "method"} for one in value)
            sound = sound and all(isinstance(one.get(key), kind) for one in value for key, kind in RECORD.items())
        if not sound:
            raise store.StoreError(f"'{name}' " + (f"cannot be {str(value)[:60]!r}" if name in meta else "is missing"))


NEEDS = ("embeddings", "means", "covariance")
_OWN = ("novel_means", "counts", "memory_features", "memory_labels", "embeddings")


def _of_version_0_1(found: dict[str, Any], with_bias: bool, method: str | None) -> tuple[dict[str, Any], bool]:
    """Arrays of a state as version 0.1 named them, under their names of today; and whether features get a 1 appended.

    It kept the bias of all rows, and references of old ones, for methods that need neither, too.
    """
    made = None if method is None else create_method(method)
    cut = with_bias and made is not None and not made.uses_bias
    of_width = ("rows", "base_rows", "novel_references", "base_means", "novel_means", "center", "memory_features")
    found = {name: array[..., :-1] if cut and name in of_width else array for name, array in found.items()}
    rows, references = found.pop("rows"), found.pop("novel_references")
    base_rows = found.pop("base_rows", rows)
    found |= {f"{BASE}rows": base_rows, f"{LEARNED}rows": rows}
    if made is None or made.moves_old_rows:
        found[f"{LEARNED}references"] = np.concatenate([base_rows, references])
    for old, new in (("base_means", "means"), ("center", "origin"), ("covariance", "covariance")):
        if old in found:
            found[f"{BASE}{new}"] = found.pop(old)
    if "embeddings" in found:
        found[f"{BASE}embeddings"] = found["embeddings"][: len(base_rows)]
    return found, with_bias and not cut


@dataclass(frozen=True)
class StoredState:
    """A state that still lies in the store it was loaded from."""

    path: str
    id: str | None  # None: pruned, only its record is left
    record: SessionRecord


def records_of(version: store.Version) -> list[SessionRecord]:
    """The records of all sessions up to this version."""
    return [SessionRecord(**{**record, "classes": tuple(record["classes"])}) for record in version.meta["sessions"]]


def extras_of(version: store.Version) -> tuple[dict[str, NDArray[Any]], dict[str, Any]] | None:
    """The arrays and the meta that a caller of `to_version` added; None where there are none."""
    if "extra" not in version.meta:
        return None
    arrays = {name.removeprefix(EXTRA): array for name, array in version.arrays.items() if name.startswith(EXTRA)}
    return arrays, dict(version.meta["extra"])


def make_record(
    kind: Any, classes: Sequence[Any], examples: int, steps: Any, began: float, method: Learner | None = None
) -> SessionRecord:
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    labels = tuple(plain_label(label) for label in classes)
    seconds, made_by = round(time.perf_counter() - began, 3), None if method is None else spec_of(method)
    return SessionRecord(kind, labels, examples, int(np.max(steps)), seconds, date, made_by)
