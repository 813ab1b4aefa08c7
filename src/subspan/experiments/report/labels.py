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
_ALONG = np.linspace(0, 1, 100)[:, None]  # where a line is looked at


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
    to_pixels, to_data = axes.transData.transform, axes.transData.inverted().transform
    anchors = to_pixels(np.array([label.anchor for label in labels]).reshape(-1, 2))
    corners = place_labels(
        anchors,
        sizes := np.array([[extent.width, extent.height] for extent in extents]).reshape(-1, 2),
        np.array(axes.get_window_extent().extents),
        points=to_pixels(points),
        reach=np.array([label.reach for label in labels]) * pixels,
        segments=to_pixels(ties.reshape(-1, 2)).reshape(-1, 2, 2),
        clearance=3 * pixels,
    )
    for label, text, anchor, size, corner in zip(labels, drawn, anchors, sizes, corners, strict=True):
        if np.isnan(corner).any():
            text.remove()
            continue
        text.set_position(tuple(to_data(corner)))
        end = np.clip(anchor, corner, corner + size)
        if np.linalg.norm(end - anchor) > 8 * pixels:
            axes.plot(*to_data(np.stack([anchor, end])).T, color=label.color, linewidth=0.5, alpha=0.7, zorder=2)


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
    corners, direction = np.full(anchors.shape, np.nan), np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)
    # Right and above come first where the gap is equal, as readers expect.
    preference = 0.3 * clearance * (1 - np.cos(_ANGLES - np.deg2rad(22.5)))
    taken = np.concatenate([points, points], axis=1)  # points, then labels
    lines = _places(np.empty((0, 2, 2)) if segments is None else segments)  # (k, 100, 2)
    for number, (anchor, size) in enumerate(zip(anchors, sizes, strict=True)):
        gaps = np.arange(1.5 * clearance, max(reach[number], 2 * clearance), 1.5 * clearance)
        # The label's edge, not its centre, keeps the gap: its centre lies half a size further out.
        corner = (anchor + direction * gaps[:, None, None] + direction * size / 2 - size / 2).reshape(-1, 2)
        box = np.concatenate([corner, corner + size], axis=1)  # (c, 4)
        padded = box + np.array([-1, -1, 1, 1]) * (clearance / 2)
        nearest = np.clip(anchor, corner, corner + size)
        leaders = _places(np.stack([np.broadcast_to(anchor, corner.shape), nearest], axis=1))  # (c, 100, 2)
        free = (corner >= frame[:2]).all(axis=1) & (box[:, 2:] <= frame[2:]).all(axis=1)
        free &= ~_overlap(padded[:, None], taken).any(axis=1)
        free &= ~_overlap(leaders[:, :, None], taken[len(points) :]).any(axis=(1, 2))
        if not free.any():
            continue
        crossed = _overlap(padded[:, None, None], lines).any(axis=2).sum(axis=1)
        cost = np.where(free, (gaps[:, None] + preference).ravel() + 4 * clearance * crossed, np.inf)
        best = int(np.argmin(cost))
        corners[number] = corner[best]
        taken, lines = np.concatenate([taken, box[[best]]]), np.concatenate([lines, leaders[[best]]])
    return corners


def _places(segments: FloatArray) -> FloatArray:
    """Points along segments ``(k, 2, 2)``: ``(k, 100, 2)``."""
    return segments[:, :1] * (1 - _ALONG) + segments[:, 1:] * _ALONG


def _overlap(boxes: FloatArray, others: FloatArray) -> NDArray[np.bool_]:
    """Whether boxes ``(..., 4)`` or points ``(..., 2)`` overlap one another; both broadcast."""
    return np.all((boxes[..., :2] < others[..., -2:]) & (others[..., :2] < boxes[..., -2:]), axis=-1)
