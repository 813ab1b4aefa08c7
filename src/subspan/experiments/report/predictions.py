"""Every prediction of a run as CSV, for questions that no table answers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from subspan.experiments.results import MethodResult
from subspan.files.atomic import replacing


def write_predictions(path: Path, results: Sequence[MethodResult]) -> None:
    """One line per test item, draw and session: what it is and what it was taken for."""
    import pandas as pd  # slow to import, and only for this

    frames = []
    for result in results:
        assert result.predictions is not None
        assert result.query_labels is not None
        for session, predicted in enumerate(result.predictions):
            items = np.flatnonzero(result.query_labels < result.class_counts[session])
            draws = len(predicted)
            frames.append(
                pd.DataFrame(
                    {
                        "method": result.method,
                        "memory": result.memory,
                        "split": np.repeat(result.splits, len(items)),
                        "draw": np.repeat(np.arange(draws), len(items)),
                        "session": session,
                        "item": np.tile(items, draws),
                        "true": np.tile(result.query_labels[items], draws),
                        "predicted": predicted.reshape(-1),
                    }
                )
            )
    with replacing(path) as file:  # whose name does not end like the path's
        pd.concat(frames).to_csv(file, index=False, compression="gzip" if path.suffix == ".gz" else None)
