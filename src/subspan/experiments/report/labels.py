"""Labels of points in a figure: measured with the renderer, placed so that no two overlap, tied to far points."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from subspan.arrays import FloatArray
from subspan.experiments.report.label_placement import Frame, place_labels


@dataclass(frozen=True)
class Label:
    """A name beside a point."""

    text: str
    anchor: FloatArray  # (2,), in data coordinates
    color: str
    size: float
    reach: float  # in points
    style: str = "normal"


def draw_labels(figure: Figure, axes: Axes, labels: list[Label], points: FloatArray, ties: FloatArray) -> None:
    """Fix the layout, measure every label with the renderer, place them, and draw those that found a place."""
    canvas = figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    figure.set_layout_engine("none")
    pixels = figure.dpi / 72
    common = {"ha": "left", "va": "bottom", "zorder": 7}
    drawn = [
        axes.text(0, 0, label.text, fontsize=label.size, color=label.color, style=label.style, **common)
        for label in labels
    ]
    extents = [text.get_window_extent(canvas.get_renderer()) for text in drawn]
    sizes = np.array([[extent.width, extent.height] for extent in extents]).reshape(-1, 2)
    anchors = axes.transData.transform(np.array([label.anchor for label in labels]).reshape(-1, 2))
    inside = axes.get_window_extent()
    corners = place_labels(
        anchors,
        sizes,
        Frame(inside.x0, inside.y0, inside.x1, inside.y1),
        points=axes.transData.transform(points),
        reach=np.array([label.reach for label in labels]) * pixels,
        segments=axes.transData.transform(ties.reshape(-1, 2)).reshape(-1, 2, 2),
        clearance=3 * pixels,
    )
    to_data = axes.transData.inverted()
    for label, text, anchor, size, corner in zip(labels, drawn, anchors, sizes, corners, strict=True):
        if np.isnan(corner).any():
            text.remove()
            continue
        left, bottom = to_data.transform(corner)
        text.set_position((float(left), float(bottom)))
        end = np.clip(anchor, corner, corner + size)
        if np.linalg.norm(end - anchor) > 8 * pixels:
            line = to_data.transform(np.stack([anchor, end]))
            axes.plot(*line.T, color=label.color, linewidth=0.5, alpha=0.7, zorder=2)
