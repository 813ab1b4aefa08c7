"""Places text labels beside points so that no two overlap: greedy, deterministic, on plain rectangles.

Each label tries positions around its point on growing rings and takes the cheapest free one: near its point, off other
lines, its own leader across no other label. Labels come in order of importance; one that finds no place is left out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray

_ANGLES = np.deg2rad(np.arange(0, 360, 22.5))


@dataclass(frozen=True)
class Frame:
    """The rectangle that labels must stay in."""

    left: float
    bottom: float
    right: float
    top: float


def place_labels(
    anchors: FloatArray,
    sizes: FloatArray,
    frame: Frame,
    points: FloatArray,
    reach: FloatArray,
    segments: FloatArray | None = None,
    clearance: float = 3.0,
) -> FloatArray:
    """Lower left corners ``(n, 2)`` of the labels, NaN for those left out, all in one unit (pixels).

    ``anchors (n, 2)`` are the points that labels ``sizes (n, 2)`` belong to, ``points (m, 2)`` all marks a label must
    not cover, ``reach (n,)`` how far from its point a label may stand, ``segments (k, 2, 2)`` lines better not covered.
    """
    corners = np.full(anchors.shape, np.nan)
    boxes = np.empty((0, 4))
    ends = np.empty((0, 2, 2)) if segments is None else segments
    for number, (anchor, size) in enumerate(zip(anchors, sizes, strict=True)):
        candidates, distances = _candidates(anchor, size, clearance, reach[number])
        candidate_boxes = np.concatenate([candidates, candidates + size], axis=1)  # (k, 4)
        padded = candidate_boxes + np.array([-1, -1, 1, 1]) * (clearance / 2)
        leader = np.stack([np.broadcast_to(anchor, candidates.shape), _nearest(candidate_boxes, anchor)], axis=1)
        free = (
            (candidate_boxes[:, 0] >= frame.left)
            & (candidate_boxes[:, 1] >= frame.bottom)
            & (candidate_boxes[:, 2] <= frame.right)
            & (candidate_boxes[:, 3] <= frame.top)
            & ~_overlap(padded, boxes).any(axis=1)
            & ~_contains(padded, points).any(axis=1)
            & ~_crosses(boxes, leader).any(axis=0)
        )
        if not free.any():
            continue
        cost = np.where(free, distances + 4 * clearance * _crosses(padded, ends).sum(axis=1), np.inf)
        best = int(np.argmin(cost))
        corners[number] = candidates[best]
        boxes = np.concatenate([boxes, candidate_boxes[best : best + 1]])
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
    """``(k, 4)`` against ``(m, 4)``: ``(k, m)``."""
    a, b = boxes[:, None], others[None]
    return (a[..., 0] < b[..., 2]) & (b[..., 0] < a[..., 2]) & (a[..., 1] < b[..., 3]) & (b[..., 1] < a[..., 3])


def _contains(boxes: FloatArray, points: FloatArray) -> NDArray[np.bool_]:
    """``(k, 4)`` and points ``(m, 2)``: ``(k, m)``."""
    a, p = boxes[:, None], points[None]
    return (a[..., 0] <= p[..., 0]) & (p[..., 0] <= a[..., 2]) & (a[..., 1] <= p[..., 1]) & (p[..., 1] <= a[..., 3])


def _crosses(boxes: FloatArray, segments: FloatArray) -> NDArray[np.bool_]:
    """Whether segments ``(m, 2, 2)`` pass through boxes ``(k, 4)``, by clipping (Liang and Barsky): ``(k, m)``."""
    start, end = segments[None, :, 0], segments[None, :, 1]  # (1, m, 2)
    step = np.where(np.abs(end - start) < 1e-9, 1e-9, end - start)
    low, high = (boxes[:, None, :2] - start) / step, (boxes[:, None, 2:] - start) / step  # (k, m, 2)
    enter = np.minimum(low, high).max(axis=-1)
    leave = np.maximum(low, high).min(axis=-1)
    return np.maximum(enter, 0) <= np.minimum(leave, 1)


def _nearest(boxes: FloatArray, anchor: FloatArray) -> FloatArray:
    """The point of each box ``(k, 4)`` closest to the anchor: ``(k, 2)``."""
    return np.clip(anchor, boxes[:, :2], boxes[:, 2:])
