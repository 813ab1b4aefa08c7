"""The paper's pictures: accuracy over sessions (figure 2), heat maps (figure 3) and the weight space in a plane.

They share the Okabe-Ito palette and line styles that differ without colour, and use matplotlib's objects directly:
nothing here touches pyplot or any other global state.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from subspan.arrays import FloatArray
from subspan.experiments.records import WeightSpace
from subspan.experiments.report.labels import Label, draw_labels
from subspan.experiments.results import MethodResult

DPI = 160
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, VERMILION, PURPLE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#888888"
# Grey stands in for Okabe and Ito's yellow, which does not show on white.
_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK, GREY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p")
_DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
PANELS = {"all classes": "weighted", "base classes": "base", "novel classes": "novel"}  # and what of a result they show
MOST_SESSIONS = 4  # of heat maps
RED = "#C8102E"  # novel classes are red in the paper; they are triangles too, for eyes that do not tell red from black
BASE_NEIGHBOURS = 2  # base rows labelled for each novel row and each target


def method_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and line style of each distinct name, in order of appearance, for all figures of a report.

    No two of the first 88 share both colour and marker.
    """
    return {
        name: {
            "color": _COLOURS[i % len(_COLOURS)],
            "marker": _MARKERS[i % len(_MARKERS)],
            "linestyle": _DASHES[(i + i // len(_COLOURS)) % len(_DASHES)],  # one colour's next use has other dashes
        }
        for i, name in enumerate(dict.fromkeys(names))
    }


def new_figure(width: float, height: float) -> Figure:
    """An empty white figure of ``width`` x ``height`` inches with its own canvas."""
    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain_axes(axes: Axes, x: str, y: str = "") -> Axes:
    """Quiet axes with these labels: no box above and right, a light grid behind the data."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.9", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=10)
    axes.set_xlabel(x, fontsize=11)
    axes.set_ylabel(y, fontsize=11)
    return axes


def to_files(figure: Figure) -> dict[str, bytes]:
    """The figure as it would be saved, by ending, whatever lies outside its frame included.

    A PDF has its fonts in it as they are, an SVG their outlines; neither has a date, so that equal figures are equal.
    """
    files = {}
    with rc_context({"pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "subspan"}):
        for ending, date in (("png", None), ("pdf", "CreationDate"), ("svg", "Date")):
            stream = io.BytesIO()
            told: dict[str, Any] = {"metadata": {date: None}} if date else {}
            figure.savefig(stream, format=ending, dpi=DPI, bbox_inches="tight", pad_inches=0.12, **told)
            files[ending] = stream.getvalue()
    return files


def accuracy_curves(
    results: Sequence[MethodResult],
    styles: Mapping[str, Mapping[str, Any]] | None = None,
    published: Mapping[str, Sequence[float]] | None = None,
) -> Figure:
    """One line per result with its 95 % band, where there is more than one sample; the legend stands below.

    ``published`` accuracies on all classes, by method, are hollow marks without a line or a band.
    """
    styles = styles or method_styles([result.method for result in results])
    theirs = {f"{method}, published": values for method, values in (published or {}).items()}
    entries = [*(result.method for result in results), *theirs]
    entry_width = max(map(len, entries), default=0) + 8  # in characters, the line included
    columns = max(1, min(len(results), 130 // entry_width))
    figure = new_figure(12, 4.1 + 0.24 * -(-len(entries) // columns))
    panels = figure.subplots(1, 3)
    for axes, (title, name) in zip(panels, PANELS.items(), strict=True):
        for result in results:
            mean, half_width = result.mean_and_half_width(getattr(result, name))
            sessions, look = np.arange(len(mean)), styles[result.method]
            axes.plot(sessions, mean, label=result.method, linewidth=1.8, markersize=5.5, **look)
            band = mean - half_width, mean + half_width
            axes.fill_between(sessions, *band, color=look["color"], alpha=0.16, linewidth=0)
            if name == "weighted" and (label := f"{result.method}, published") in theirs:
                hollow = {**look, "linestyle": "", "markerfacecolor": "white", "markersize": 6.5, "zorder": 4}
                axes.plot(range(len(theirs[label])), theirs[label], label=label, **hollow)
        plain_axes(axes, "session", "accuracy (%)" if axes is panels[0] else "")
        axes.set_title(title, fontsize=12)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    handles, labels = panels[0].get_legend_handles_labels()
    if handles:
        place = {"loc": "outside lower center", "ncols": columns, "fontsize": 10}
        figure.legend(handles, labels, **place, frameon=False, handlelength=3.2)
    return figure


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
    image = None
    for row, result in zip(grid, results, strict=True):
        assert result.confusion is not None
        base_count = result.class_counts[0]
        for session, axes in enumerate(row, start=1):
            count = result.class_counts[session]
            share = row_percent(result.confusion[session, :count, :count])
            look = {"cmap": "magma", "interpolation": "nearest", "origin": "upper"}
            image = axes.imshow(share, norm=PowerNorm(0.5, vmin=0, vmax=100), **look)
            for line in (axes.axhline, axes.axvline):
                line(base_count - 0.5, color="white", linewidth=0.9, linestyle=(0, (4, 2)))
            ticks = [0, base_count, count - 1] if count - 1 - base_count > 0.12 * count else [0, base_count]
            axes.set(xticks=ticks, yticks=ticks)
            axes.tick_params(labelsize=9)
        row[0].set_ylabel(f"{result.method}\n\ngold label", fontsize=11)
    for session, (top, bottom) in enumerate(zip(grid[0], grid[-1], strict=True), start=1):
        top.set_title(f"session {session}", fontsize=12)
        bottom.set_xlabel("prediction", fontsize=11)
    assert image is not None
    bar = figure.colorbar(image, ax=list(grid.flat), fraction=0.03, pad=0.01, ticks=[0, 5, 20, 50, 100])
    bar.set_label("share of a class's test items (%)", fontsize=10)
    return figure


def row_percent(counts: NDArray[np.int64]) -> FloatArray:
    """Counts ``(C, C)`` as percent of each row; a row without counts stays 0."""
    return 100.0 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def weight_space_figure(space: WeightSpace) -> Figure:
    """Base rows black, novel rows red, targets green crosses, a thin line from each novel row to its target.

    Labelled are the novel classes, their targets where they stand apart, and the base classes nearest to either, as far
    as there is room: no two labels overlap, and one that stands off its point is tied to it by a line.
    """
    plane = PCA(2, svd_solver="full").fit(np.concatenate([space.base, space.novel]))
    share, shown = plane.explained_variance_ratio_, (space.base, space.novel, space.targets)
    base, novel, targets = (plane.transform(rows) if len(rows) else rows[:, :2] for rows in shown)
    figure = new_figure(11, 8)
    first = f"first principal component ({100 * share[0]:.0f} % of the variance)"
    axes = plain_axes(figure.add_subplot(), first, f"second ({100 * share[1]:.0f} %)")
    ties = np.stack([novel, targets], axis=1)  # (C1, 2, 2)
    for tie in ties:
        axes.plot(*tie.T, color="0.55", linewidth=0.8, zorder=1)
    axes.scatter(*base.T, s=16, color=BLACK, zorder=3)
    axes.scatter(*targets.T, s=44, color=GREEN, marker="x", linewidths=1.6, zorder=6)
    axes.scatter(*novel.T, s=34, color=RED, marker="^", zorder=5)
    axes.margins(0.08)
    looks = {
        "base class": {"color": BLACK, "marker": "o", "markersize": 5},
        "novel class": {"color": RED, "marker": "^", "markersize": 6},
        f"target ({'moves with its row' if space.moving else 'fixed'})": {
            "color": GREEN,
            "marker": "x",
            "markersize": 7,
            "markeredgewidth": 1.6,
        },
    }
    handles = [Line2D([], [], linestyle="", label=name, **look) for name, look in looks.items()]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=4, frameon=False)
    draw_labels(figure, axes, _labels(space, base, novel, targets), np.concatenate([base, novel, targets]), ties)
    return figure


def _labels(space: WeightSpace, base: FloatArray, novel: FloatArray, targets: FloatArray) -> list[Label]:
    """In order of importance: novel classes, their targets, then the base classes nearest to either."""
    wanted = [Label(n, p, RED, 9.5, 90) for n, p in zip(space.novel_names, novel, strict=True)]
    near: dict[int, float] = {}
    for point in np.concatenate([targets, novel]):
        distances = np.linalg.norm(base - point, axis=1)
        for number in np.argsort(distances)[:BASE_NEIGHBOURS]:
            near[int(number)] = min(near.get(int(number), np.inf), float(distances[number]))
    apart = 0.03 * np.ptp(np.concatenate([base, novel]), axis=0).max()  # a target on its row needs no name of its own
    targeted = [
        Label(name, target, GREEN, 7.5, 24, "italic")
        for name, row, target in zip(space.novel_names, novel, targets, strict=True)
        if np.linalg.norm(target - row) > apart
    ]
    closest = sorted(near, key=lambda number: near[number])
    return wanted + targeted + [Label(space.base_names[i], base[i], BLACK, 8, 20) for i in closest]
