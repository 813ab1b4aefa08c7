"""The image set: what it refuses, and where the images of a class are."""

import dataclasses

import numpy as np
import pytest

from subspan.images.imageset import DataError, ImageSet


def test_repr_is_one_line(tiny_set):
    assert repr(tiny_set(classes=3, per_class=2)) == "ImageSet(6 images 1x1, 3 classes, from None)"


def test_indices_of(tiny_set):
    images = tiny_set(classes=4, per_class=3, order_seed=1)
    for c in range(4):
        assert images.indices_of(c).tolist() == np.flatnonzero(images.labels == c).tolist()
    more = dataclasses.replace(images, class_names=(*images.class_names, "none"), wnids=None)
    assert more.indices_of(4).tolist() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((4, 1, 1, 3), dtype=np.float32)}, "uint8"),
        ({"images": np.zeros((4, 1, 1), dtype=np.uint8)}, r"\(4, 1, 1\)"),
        ({"images": np.zeros((3, 1, 1, 3), dtype=np.uint8)}, "3 images, 4 labels, 4 names"),
        ({"labels": np.array([0, 0, 1, 2])}, r"0\.\.1, got 0\.\.2"),
        ({"labels": np.zeros(4, dtype=np.int32)}, "int64"),
        ({"wnids": ("n1",)}, "1 wnids, 2 class names"),
        ({"wnids": None, "class_names": ("a", "a")}, "'a' occurs 2 times"),
        ({"files": ("a", "b", "a", "c")}, "file name may occur once, 'a' occurs 2 times"),
        ({"files": ("a", "b", "", "c")}, "image 2 has an empty one"),
        ({"parts": ("train",)}, "1 parts, 4 images"),
    ],
)
def test_refuses_by_rule_and_value(tiny_set, change, message):
    images = tiny_set(classes=2, per_class=2)
    fields = {field.name: getattr(images, field.name) for field in dataclasses.fields(images)}
    with pytest.raises(DataError, match=message):
        ImageSet(**(fields | change))


def test_a_class_that_is_not_there_is_refused(tiny_set):
    with pytest.raises(DataError, match="'dog' is not in these images, which hold 2 classes"):
        tiny_set(classes=2, per_class=2).class_index("dog")
