"""The rows of a head and the targets of its novel ones on two principal components: the paper's PCA figures."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from sklearn.decomposition import PCA

from subspan.arrays import FloatArray
from subspan.experiments.report.labels import Label, draw_labels
from subspan.experiments.report.style import BLACK, GREEN, new_figure, plain_axes
from subspan.experiments.results import WeightSpace

RED = "#C8102E"  # novel classes are red in the paper; they are triangles too, for eyes that do not tell red from black
BASE_NEIGHBOURS = 2  # base rows labelled for each novel row and each target


def weight_space_figure(space: WeightSpace) -> Figure:
    """Base rows black, novel rows red, targets green crosses, a thin line from each novel row to its target.

    Labelled are the novel classes, their targets where they stand apart, and the base classes nearest to either, as far
    as there is room: no two labels overlap, and one that stands off its point is tied to it by a line.
    """
    plane = PCA(2, svd_solver="full").fit(np.concatenate([space.base, space.novel]))
    share, shown = plane.explained_variance_ratio_, (space.base, space.novel, space.targets)
    base, novel, targets = (plane.transform(rows) if len(rows) else rows[:, :2] for rows in shown)
    figure = new_figure(11, 8)
    axes = figure.add_subplot()
    plain_axes(axes)
    for row, target in zip(novel, targets, strict=True):
        axes.plot(*np.stack([row, target]).T, color="0.55", linewidth=0.8, zorder=1)
    axes.scatter(*base.T, s=16, color=BLACK, zorder=3)
    axes.scatter(*targets.T, s=44, color=GREEN, marker="x", linewidths=1.6, zorder=6)
    axes.scatter(*novel.T, s=34, color=RED, marker="^", zorder=5)
    axes.set_xlabel(f"first principal component ({100 * share[0]:.0f} % of the variance)", fontsize=11)
    axes.set_ylabel(f"second ({100 * share[1]:.0f} %)", fontsize=11)
    axes.margins(0.08)
    axes.legend(handles=_legend(space.moving), loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=4, frameon=False)
    ties = np.stack([novel, targets], axis=1)  # (C1, 2, 2)
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


def _legend(moving: bool) -> list[Line2D]:
    kind = "target (moves with its row)" if moving else "target (fixed)"
    return [
        Line2D([], [], color=BLACK, marker="o", linestyle="", markersize=5, label="base class"),
        Line2D([], [], color=RED, marker="^", linestyle="", markersize=6, label="novel class"),
        Line2D([], [], color=GREEN, marker="x", linestyle="", markersize=7, markeredgewidth=1.6, label=kind),
    ]
