"""Results for programs: JSON of what ``subspan bench --json`` promises, and every prediction of a run as CSV."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from subspan.experiments.results import MethodResult
from subspan.files.atomic import replacing

KEYS = ("steps", "accuracy", "class_mean", "base", "novel", "novel_session_mean", "weighted", "harmonic")
KEYS += ("plain_harmonic", "average", "drop", "forgetting", "generalized")


def to_json(results: Sequence[MethodResult]) -> list[dict[str, Any]]:
    """One object per method and memory setting: accuracies in percent from session 0, means over draws.

    ``steps`` has one entry per incremental session, all accuracies one per session from 0. ``accuracy``, ``base`` and
    ``novel`` (null at session 0) are of all test images, those of base and of novel classes; ``class_mean`` is the mean
    over classes; ``weighted`` and ``harmonic`` combine ``base`` and ``novel_session_mean`` by numbers of classes, as
    the paper does; ``plain_harmonic`` is the usual harmonic mean of ``base`` and ``novel``. ``average``, ``drop``,
    ``forgetting`` (null at session 0) and ``generalized`` (gAcc) sum up the sessions to each. ``per_draw`` holds the
    same keys as lists over draws, and the split of each draw. There is never a NaN: what has no value is null.
    """
    return [
        {
            "method": result.method,
            "memory": bool(result.memory),
            **{key: plain(np.mean(getattr(result, key), axis=0)) for key in KEYS},
            "per_draw": {key: plain(getattr(result, key)) for key in KEYS} | {"split": plain(result.splits)},
            "class_counts": [int(count) for count in result.class_counts],
            "seconds": plain(result.seconds),
            "protocol": result.protocol,
            "notes": list(result.notes),
        }
        for result in results
    ]


def write_predictions(path: Path, results: Sequence[MethodResult]) -> None:
    """One line per test item, draw and session: what it is and what it was taken for."""
    import pandas as pd  # slow to import, and only for this

    frames = []
    for result in results:
        assert result.predictions is not None
        assert result.query_labels is not None
        for session, predicted in enumerate(result.predictions):
            items = np.flatnonzero(result.query_labels < result.class_counts[session])
            columns = {
                "method": result.method,
                "memory": result.memory,
                "split": np.repeat(result.splits, len(items)),
                "draw": np.repeat(np.arange(len(predicted)), len(items)),
                "session": session,
                "item": np.tile(items, len(predicted)),
                "true": np.tile(result.query_labels[items], len(predicted)),
                "predicted": predicted.reshape(-1),
            }
            frames.append(pd.DataFrame(columns))
    with replacing(path) as file:  # whose name does not end like the path's
        pd.concat(frames).to_csv(file, index=False, compression="gzip" if path.suffix == ".gz" else None)


def plain(values: ArrayLike) -> Any:
    """Nested lists of Python numbers; whole ones are written as 753, not 753.0, and what is not finite as null."""

    def convert(value: Any) -> Any:
        if isinstance(value, list):
            return [convert(item) for item in value]
        if not math.isfinite(value):
            return None
        return int(value) if float(value).is_integer() else float(value)

    return convert(np.asarray(values).tolist())
