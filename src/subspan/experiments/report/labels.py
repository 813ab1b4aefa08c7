"""Labels of points in a figure: measured with the renderer, placed so that no two overlap, tied to far points.

Placement is greedy and deterministic, on plain rectangles: each label tries positions around its point on growing rings
and takes the cheapest free one: near its point, off other lines, its own leader across no other label. Labels come in
order of importance; one that finds no place is left out.
"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from subspan.arrays import FloatArray

_ANGLES = np.deg2rad(np.arange(0, 360, 22.5))


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
    """Fix the layout, measure every label with the renderer, place them, and draw those that found a place.

    No label covers ``points (m, 2)``; better none covers ``ties (k, 2, 2)``.
    """
    canvas, pixels = figure.canvas, figure.dpi / 72
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()
    figure.set_layout_engine("none")
    common = {"ha": "left", "va": "bottom", "zorder": 7}
    drawn = [axes.text(0, 0, one.text, fontsize=one.size, color=one.color, style=one.style, **common) for one in labels]
    extents = [text.get_window_extent(canvas.get_renderer()) for text in drawn]
    sizes = np.array([[extent.width, extent.height] for extent in extents]).reshape(-1, 2)
    anchors = axes.transData.transform(np.array([label.anchor for label in labels]).reshape(-1, 2))
    corners = place_labels(
        anchors,
        sizes,
        np.array(axes.get_window_extent().extents),
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


def place_labels(
    anchors: FloatArray,
    sizes: FloatArray,
    frame: FloatArray,
    points: FloatArray,
    reach: FloatArray,
    segments: FloatArray | None = None,
    clearance: float = 3.0,
) -> FloatArray:
    """Lower left corners ``(n, 2)`` of the labels, NaN for those left out, all in one unit (pixels).

    ``anchors (n, 2)`` are the points that labels ``sizes (n, 2)`` belong to, ``frame (4,)`` what they must stay in,
    ``points (m, 2)`` all marks a label must not cover, ``reach (n,)`` how far from its point a label may stand,
    ``segments (k, 2, 2)`` lines better not covered. Boxes are left, bottom, right, top.
    """
    corners = np.full(anchors.shape, np.nan)
    boxes, marks = np.empty((0, 4)), np.concatenate([points, points], axis=1)
    ends = np.empty((0, 2, 2)) if segments is None else segments
    for number, (anchor, size) in enumerate(zip(anchors, sizes, strict=True)):
        candidates, distances = _candidates(anchor, size, clearance, reach[number])
        tried = np.concatenate([candidates, candidates + size], axis=1)  # (k, 4)
        padded = tried + np.array([-1, -1, 1, 1]) * (clearance / 2)
        nearest = np.clip(anchor, tried[:, :2], tried[:, 2:])
        leader = np.stack([np.broadcast_to(anchor, candidates.shape), nearest], axis=1)
        free = (tried[:, :2] >= frame[:2]).all(axis=1) & (tried[:, 2:] <= frame[2:]).all(axis=1)
        free &= ~_overlap(padded, np.concatenate([boxes, marks])).any(axis=1) & ~_crosses(boxes, leader).any(axis=0)
        if not free.any():
            continue
        cost = np.where(free, distances + 4 * clearance * _crosses(padded, ends).sum(axis=1), np.inf)
        best = int(np.argmin(cost))
        corners[number] = candidates[best]
        boxes = np.concatenate([boxes, tried[best : best + 1]])
        ends = np.concatenate([ends, leader[best : best + 1]])
    return corners


def _candidates(anchor: FloatArray, size: FloatArray, clearance: float, reach: float) -> tuple[FloatArray, FloatArray]:
    """Corners ``(k, 2)`` on rings around the anchor, and the gap ``(k,)`` between anchor and label."""
    gaps = np.arange(1.5 * clearance, max(reach, 2 * clearance), 1.5 * clearance)
    direction = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)  # (a, 2)
    # The label's edge, not its centre, keeps the gap: its centre lies half a size further out.
    centre = anchor + direction * gaps[:, None, None] + direction * size / 2  # (g, a, 2)
    # Right and above come first where the gap is equal, as readers expect.
    preference = 0.3 * clearance * (1 - np.cos(_ANGLES - np.deg2rad(22.5)))
    return (centre - size / 2).reshape(-1, 2), (gaps[:, None] + preference).ravel()


def _overlap(boxes: FloatArray, others: FloatArray) -> NDArray[np.bool_]:
    """``(k, 4)`` against ``(m, 4)``, which may be points: ``(k, m)``."""
    a, b = boxes[:, None], others[None]
    return np.all((a[..., :2] < b[..., 2:]) & (b[..., :2] < a[..., 2:]), axis=-1)


def _crosses(boxes: FloatArray, segments: FloatArray) -> NDArray[np.bool_]:
    """Whether segments ``(m, 2, 2)`` pass through boxes ``(k, 4)``, by clipping (Liang and Barsky): ``(k, m)``."""
    start, end = segments[None, :, 0], segments[None, :, 1]  # (1, m, 2)
    step = np.where(np.abs(end - start) < 1e-9, 1e-9, end - start)
    low, high = (boxes[:, None, :2] - start) / step, (boxes[:, None, 2:] - start) / step  # (k, m, 2)
    enter = np.minimum(low, high).max(axis=-1)
    leave = np.maximum(low, high).min(axis=-1)
    return np.maximum(enter, 0) <= np.minimum(leave, 1)
