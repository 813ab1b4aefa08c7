"""Label placement: the promises it makes, on random pictures."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from subspan.experiments.report.labels import place_labels

FRAME = np.array([0.0, 0, 400, 300])


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**31))
def test_labels_overlap_neither_each_other_nor_points_nor_the_frame(count, seed):
    generator = np.random.default_rng(seed)
    points = generator.uniform(0, 1, (count + 10, 2)) * [400, 300]
    sizes = generator.uniform([20, 8], [80, 14], (count, 2))
    corners = place_labels(points[:count], sizes, FRAME, points, np.full(count, 60.0))
    boxes = np.concatenate([corners, corners + sizes], axis=1)[~np.isnan(corners[:, 0])]
    for number, box in enumerate(boxes):
        assert box[0] >= 0
        assert box[1] >= 0
        assert box[2] <= 400
        assert box[3] <= 300
        assert not any(overlap(box, other) for other in boxes[number + 1 :])
        assert not any(box[0] < x < box[2] and box[1] < y < box[3] for x, y in points)


def test_a_lonely_label_stands_close_to_its_point():
    anchor = np.array([[200.0, 150.0]])
    (corner,) = place_labels(anchor, np.array([[50.0, 10.0]]), FRAME, anchor, np.array([60.0]))
    nearest = np.clip(anchor[0], corner, corner + np.array([50, 10]))
    assert np.linalg.norm(nearest - anchor[0]) < 10


def test_a_label_without_room_is_left_out_and_the_important_one_kept():
    anchors = np.array([[200.0, 150.0], [200.0, 150.0]])
    frame = np.array([150.0, 140, 290, 160])
    corners = place_labels(anchors, np.array([[80.0, 10.0], [80.0, 10.0]]), frame, anchors, np.array([20.0, 20.0]))
    assert np.isfinite(corners[0]).all()
    assert np.isnan(corners[1]).all()


def test_a_label_prefers_not_to_cover_a_line():
    anchor = np.array([[200.0, 150.0]])
    to_the_right = np.array([[[200.0, 152.0], [390.0, 158.0]]])
    (corner,) = place_labels(anchor, np.array([[60.0, 10.0]]), FRAME, anchor, np.array([60.0]), to_the_right)
    x = np.linspace(200, 390, 200)
    y = np.interp(x, [200, 390], [152, 158])
    assert not np.any((corner[0] < x) & (x < corner[0] + 60) & (corner[1] < y) & (y < corner[1] + 10))


def test_no_labels_are_no_work():
    nothing = np.empty((0, 2))
    assert place_labels(nothing, nothing, FRAME, nothing, np.empty(0)).shape == (0, 2)
