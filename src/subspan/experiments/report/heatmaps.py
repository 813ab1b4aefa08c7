"""Which class is taken for which over the first sessions: the paper's figure 3."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from subspan.experiments.report.style import new_figure
from subspan.experiments.results import MethodResult

MOST_SESSIONS = 4


def prediction_heatmaps(results: Sequence[MethodResult]) -> Figure:
    """One row of panels per result, one panel per session from 1 to at most 4; predictions across, gold labels down.

    Colour is the share of a class's test items; its scale is a square root, so that rare mistakes show. Dashed lines
    part base from novel classes.
    """
    sessions = min(MOST_SESSIONS, *(len(result.class_counts) - 1 for result in results))
    if sessions < 1 or any(result.confusion is None for result in results):
        raise ValueError("heat maps need confusion counts of at least one session after session 0")
    figure = new_figure(2.9 * sessions + 1.2, 2.75 * len(results) + 0.45)
    grid = figure.subplots(len(results), sessions, squeeze=False)
    norm = PowerNorm(0.5, vmin=0, vmax=100)
    image = None
    for row, result in zip(grid, results, strict=True):
        assert result.confusion is not None
        for session, axes in enumerate(row, start=1):
            count = result.class_counts[session]
            share = row_percent(result.confusion[session, :count, :count])
            image = axes.imshow(share, norm=norm, cmap="magma", interpolation="nearest", origin="upper")
            _finish_panel(axes, result.class_counts[0], count)
            if session == 1:
                axes.set_ylabel(f"{result.method}\n\ngold label", fontsize=11)
    for session, axes in enumerate(grid[0], start=1):
        axes.set_title(f"session {session}", fontsize=12)
    for axes in grid[-1]:
        axes.set_xlabel("prediction", fontsize=11)
    assert image is not None
    bar = figure.colorbar(image, ax=list(grid.flat), fraction=0.03, pad=0.01, ticks=[0, 5, 20, 50, 100])
    bar.set_label("share of a class's test items (%)", fontsize=10)
    return figure


def row_percent(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Counts ``(C, C)`` as percent of each row; a row without counts stays 0."""
    totals = counts.sum(axis=1, keepdims=True)
    return 100.0 * counts / np.maximum(totals, 1)


def _finish_panel(axes: Axes, base_count: int, count: int) -> None:
    border = base_count - 0.5
    for line in (axes.axhline, axes.axvline):
        line(border, color="white", linewidth=0.9, linestyle=(0, (4, 2)))
    ticks = [0, base_count, count - 1] if count - 1 - base_count > 0.12 * count else [0, base_count]
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.tick_params(labelsize=9)
