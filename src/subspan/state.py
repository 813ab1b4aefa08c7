"""What a model knows after a session: an immutable state, its record, and its form in a store."""

import datetime
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.engine.contract import BaseSession, Method
from subspan.files import store
from subspan.learners.registry import spec_of
from subspan.values import plain_label

EXTRA = "extra."  # before the names of arrays that callers add to a version


@dataclass(frozen=True)
class SessionRecord:
    """What happened in one session of a model."""

    kind: Literal["base", "add_classes", "add_examples", "rename_class", "remove_class"]
    classes: tuple[Any, ...]
    examples: int
    steps: int
    seconds: float
    date: str  # UTC, ISO 8601
    method: str | None = None  # that learned, with its options; None where nothing is learned, and in older stores


@dataclass(frozen=True)
class ModelState:
    """Everything a model knows after a session. States never change; a session makes a new one."""

    classes: tuple[Any, ...]  # in the order of their rows
    base_count: int
    with_bias: bool
    rows: Tensor  # (C, d): d counts a bias
    base_rows: Tensor  # (C0, d): after session 0
    novel_references: Tensor  # (C1, d): each at the end of the session that learned it
    base_means: Tensor | None  # (C0, d)
    novel_means: Tensor  # (C1, d)
    center: Tensor | None  # (d,): mean of the base training features, for good: rows were computed with it
    covariance: Tensor | None  # (d, d): of the base training features within their classes, a bias not counted
    counts: Tensor  # (C,): examples seen; 0 where unknown
    memory_features: Tensor  # (m, d)
    memory_labels: Tensor  # (m,)
    embeddings: Tensor | None  # (C, e)
    record: SessionRecord

    @property
    def base(self) -> BaseSession:
        embeddings = None if self.embeddings is None else self.embeddings[: self.base_count]
        return BaseSession(self.base_rows, self.base_means, embeddings, self.center, self.covariance)

    @property
    def width(self) -> int:
        """Width of the features, a bias not counted."""
        return self.rows.shape[1] - self.with_bias

    @property
    def given(self) -> frozenset[str]:
        """What of session 0 that a method may need is there."""
        parts = {"embeddings": self.embeddings, "means": self.base_means, "covariance": self.covariance}
        return frozenset(name for name, part in parts.items() if part is not None)

    def check_needs(self, method: Method) -> None:
        """Refuse a method that needs what the base session did not give, or more room than a row has."""
        if not method.one_weight_per_feature:
            raise ValueError(
                f"method '{method.name}' keeps more of a class than one weight per feature, for which a model has no "
                f"room; `{method.command}` runs it"
            )
        if method.keeps_state:
            raise ValueError(
                f"method '{method.name}' keeps more than rows from session to session, for which a model has no room; "
                f"`{method.command}` runs it"
            )
        for need in ("embeddings", "means", "covariance"):
            if need in method.needs - self.given:
                raise ValueError(f"method '{spec_of(method)}' needs {need} of the base classes; pass {need}=...")

    def for_method(self, method: Method) -> "ModelState":
        """The state as the method sees it: without the bias where it takes none."""
        if method.uses_bias or not self.with_bias:
            return self
        names = ("rows", "base_rows", "novel_references", "base_means", "novel_means", "center", "memory_features")
        cut = {n: None if getattr(self, n) is None else getattr(self, n)[..., : self.width] for n in names}
        return replace(self, with_bias=False, **cut)

    def means_of(self, classes: Tensor) -> Tensor:
        """Mean features (K, d) of these classes; NaN where the model has seen none."""
        means = self.rows.new_full((len(classes), self.rows.shape[1]), torch.nan)
        is_base = classes < self.base_count
        if self.base_means is not None:
            means[is_base] = self.base_means[classes[is_base]]
        means[~is_base] = self.novel_means[classes[~is_base] - self.base_count]
        return means

    def to_version(
        self,
        records: Sequence[SessionRecord],
        parameters: Mapping[str, Any],
        extra_arrays: Mapping[str, NDArray[Any]] | None = None,
        extra_meta: Mapping[str, Any] | None = None,
    ) -> store.Version:
        """This state as a version of a store, with the records of all sessions up to it and what callers add."""
        arrays = {f"{EXTRA}{name}": array for name, array in (extra_arrays or {}).items()}
        for name, value in vars(self).items():
            if isinstance(value, Tensor) and not (name == "base_rows" and value is self.rows):
                arrays[name] = value.contiguous().numpy()
        meta = {
            "parameters": dict(parameters),
            "n_features_in": self.width,
            "classes": list(self.classes),
            "base_count": self.base_count,
            "with_bias": self.with_bias,
            "sessions": [vars(record) for record in records],
        }
        if extra_meta is not None:
            meta["extra"] = dict(extra_meta)
        return store.make_version(arrays, meta)

    @classmethod
    def from_version(cls, version: store.Version) -> "ModelState":
        """The state that `to_version` made a version of."""
        meta = version.meta
        own = {name: array for name, array in version.arrays.items() if not name.startswith(EXTRA)}
        tensors: dict[str, Any] = {name: torch.as_tensor(array) for name, array in own.items()}
        tensors.setdefault("base_rows", tensors["rows"])
        for name in ("base_means", "center", "covariance", "embeddings"):
            tensors.setdefault(name, None)
        return cls(
            classes=tuple(meta["classes"]),
            base_count=meta["base_count"],
            with_bias=meta["with_bias"],
            record=records_of(version)[-1],
            **tensors,
        )


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
    kind: Any, classes: Sequence[Any], examples: int, steps: int, began: float, method: Method | None = None
) -> SessionRecord:
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    labels = tuple(plain_label(label) for label in classes)
    seconds = round(time.perf_counter() - began, 3)
    return SessionRecord(kind, labels, examples, steps, seconds, date, None if method is None else spec_of(method))
