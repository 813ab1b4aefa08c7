"""What the results of both protocols share: their record, their frame, and how they are kept.

A record is plain JSON that stands alone: what was measured in every draw and session, means with intervals, and under
``run`` all that is needed to run it again. Tables, figures and frames are made from it as from the run itself.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from subspan.arrays import FloatArray
from subspan.experiments import metrics

if TYPE_CHECKING:
    import pandas as pd

TRANSDUCTIVE = "transductive: it answers a query by the others asked with it; compare it with its like alone"


_FIELDS = {"split": "splits", "order": "orders"}  # of numbers in a record


class RecordError(ValueError):
    """A file holds no records of results; the message says what is wrong."""


@dataclass(frozen=True)
class WeightSpace:
    """The rows of one head after a session, for the picture of the weight space."""

    base: FloatArray  # (C0, d)
    novel: FloatArray  # (C1, d)
    targets: FloatArray  # (C1, d): what each novel row was pulled towards at the end of its session
    base_names: tuple[str, ...]
    novel_names: tuple[str, ...]
    moving: bool  # a subspace target moves with its row; a semantic one does not


@dataclass(frozen=True)
class Predictions:
    """What the test items of one feature file, in one order of its classes, were taken for."""

    labels: NDArray[np.int64]  # (items,): base first, then novel in class order
    names: tuple[str, ...]  # of all classes
    by_session: tuple[NDArray[np.int64], ...]  # of each session (draws, test items of the classes seen)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What both protocols leave of one method. Accuracies are in percent, with a row for each draw or episode."""

    figures: ClassVar[tuple[str, ...]]  # what is measured in each draw and what follows from it: what a record holds
    also: ClassVar[tuple[str, ...]] = ()  # other lists that it holds
    setting: ClassVar[tuple[str, str]]  # the field that parts results which are not compared, and what tables call it
    distribution: ClassVar[Literal["t", "normal"]] = "t"  # of intervals

    method: str  # with its options, as on the command line: "semantic:tau=3"
    base: FloatArray
    steps: FloatArray  # 0 for training-free methods
    seconds: float
    protocol: str  # hash of the protocol
    weight_space: WeightSpace | None = None
    notes: tuple[str, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)  # what a reader must know to repeat it

    @property
    def label(self) -> str:
        """The method with what must stand beside its name in every table."""
        return self.method + " (transductive)" * (TRANSDUCTIVE in self.notes)

    @property
    def block(self) -> str:
        """The setting in which it is compared, as tables have it."""
        value = getattr(self, self.setting[0])
        return ("yes" if value else "no") if isinstance(value, bool) else str(value)

    @property
    def where(self) -> str:
        """The setting in words."""
        return {"yes": "with memory", "no": "without memory"}.get(self.block, f"{self.block}-shot")

    @property
    def index(self) -> dict[str, NDArray[np.int64]]:
        """What tells the draws apart: name -> (draws,)."""
        return {"draw": np.arange(len(self.base))}

    def samples(self, values: ArrayLike) -> FloatArray:
        """What an interval or a test may count as one sample of ``values (draws, ...)``."""
        return np.asarray(values, dtype=np.float64)

    def mean_and_half_width(self, values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and half of the 95 % interval over the samples of ``values (draws, ...)``, both ``(...)``."""
        samples = self.samples(values)
        return samples.mean(axis=0), metrics.interval_half_width(samples, distribution=self.distribution)

    def to_record(self) -> dict[str, Any]:
        """One object for JSON: means over draws, half of their 95 % intervals, and every draw.

        ``steps`` has one entry per session, all accuracies one per session from 0. ``accuracy``, ``base`` and
        ``novel`` (null at session 0) are of all test images, those of base and of novel classes; ``class_mean`` is the
        mean over classes; ``weighted`` and ``harmonic`` combine ``base`` and ``novel_session_mean`` by numbers of
        classes, as the paper does; ``plain_harmonic`` is the usual harmonic mean of ``base`` and ``novel``.
        ``average``, ``drop``, ``forgetting`` (null at session 0) and ``generalized`` (gAcc) sum up the sessions to
        each. Episodes have one number each. There is never a NaN: what has no value is null.
        """
        values = {key: getattr(self, key) for key in self.figures}
        draws = {key: plain(array) for key, array in (values | self.index).items()}
        told = {"method": self.method, self.setting[0]: getattr(self, self.setting[0])}
        kept = json.dumps([told, self.protocol, draws], sort_keys=True)
        return {
            **told,
            **{key: plain(np.mean(array, axis=0)) for key, array in values.items()},
            "intervals": {key: plain(self.mean_and_half_width(array)[1]) for key, array in values.items()},
            "per_draw": draws,
            **{name: list(getattr(self, name)) for name in self.also},
            "seconds": plain(self.seconds),
            "protocol": self.protocol,
            "digest": hashlib.sha256(kept.encode()).hexdigest()[:12],  # of what was measured, not of seconds
            "notes": list(self.notes),
            "run": dict(self.run),
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The result that :meth:`to_record` told of, less predictions and rows."""
        arrays = {
            _FIELDS.get(key, key): np.array(values, dtype=None if key in _FIELDS else np.float64)
            for key, values in record["per_draw"].items()
        }
        own = {one.name for one in fields(cls)}
        given: dict[str, Any] = {name: value for name, value in {**record, **arrays}.items() if name in own}
        given |= {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
        return cls(**given)

    def to_frame(self) -> "pd.DataFrame":
        """One row for each draw and session, with a column for each figure: for pandas."""
        import pandas as pd  # slow to import, and only for this

        count = len(self.base)
        sessions = 1 if self.base.ndim == 1 else self.base.shape[1]
        columns: dict[str, Any] = {"method": self.method, self.setting[0]: getattr(self, self.setting[0])}
        columns |= {name: np.repeat(numbers, sessions) for name, numbers in self.index.items()}
        columns["session"] = np.tile(np.arange(sessions) if self.base.ndim > 1 else [1], count)
        for name in self.figures:
            values = getattr(self, name).reshape(count, -1)  # steps have no session 0
            columns[name] = np.pad(values, ((0, 0), (sessions - values.shape[1], 0))).ravel()
        return pd.DataFrame(columns)


def plain(values: ArrayLike) -> Any:
    """Nested lists of Python numbers; whole ones are written as 753, not 753.0, and what is not finite as null."""

    def convert(value: Any) -> Any:
        if isinstance(value, list):
            return [convert(item) for item in value]
        if not math.isfinite(value):
            return None
        return int(value) if float(value).is_integer() else float(value)

    return convert(np.asarray(values).tolist())
