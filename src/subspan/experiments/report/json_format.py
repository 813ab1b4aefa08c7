"""Results as plain JSON: the format of ``subspan bench --json``."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from subspan.experiments.report.summary import summarize
from subspan.experiments.results import MethodResult


def to_json(results: Sequence[MethodResult]) -> list[dict[str, Any]]:
    """One object per method and memory setting: accuracies in percent from session 0, means over draws.

    ``steps`` has one entry per incremental session, all accuracies one per session from 0. ``accuracy``, ``base`` and
    ``novel`` (null at session 0) are of all test images, those of base and of novel classes; ``class_mean`` is the mean
    over classes; ``weighted`` and ``harmonic`` combine ``base`` and ``novel_session_mean`` by numbers of classes, as
    the paper does. ``per_draw`` holds the same keys as lists over draws, and the split of each draw. There is never a
    NaN: what has no value is null.
    """
    return [_to_object(result) for result in results]


def _to_object(result: MethodResult) -> dict[str, Any]:
    summary = summarize(result)
    names = ("steps", "accuracy", "class_mean", "base", "novel", "novel_session_mean")
    by_draw = {name: getattr(result, name) for name in names}
    by_draw |= {"weighted": summary.weighted, "harmonic": summary.harmonic}
    return {
        "method": result.method,
        "memory": bool(result.memory),
        **{key: _plain(np.mean(values, axis=0)) for key, values in by_draw.items()},
        "per_draw": {**{key: _plain(values) for key, values in by_draw.items()}, "split": _plain(result.splits)},
        "class_counts": [int(count) for count in result.class_counts],
        "seconds": _plain(result.seconds),
        "protocol": result.protocol,
        "notes": list(result.notes),
    }


def _plain(values: ArrayLike) -> Any:
    """Nested lists of Python numbers; whole ones are written as 753, not 753.0, and what is not finite as null."""

    def convert(value: Any) -> Any:
        if isinstance(value, list):
            return [convert(item) for item in value]
        if not math.isfinite(value):
            return None
        return int(value) if float(value).is_integer() else float(value)

    return convert(np.asarray(values).tolist())
