"""Doubtful photographs: who is named, and that nothing is learned from them unasked."""

import numpy as np
import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.doubts import left_out_scores
from subspan.catalogue.errors import DoubtError
from subspan.catalogue.looking import Batch
from subspan.catalogue.records import Finding
from subspan.catalogue.review import review


def clusters(classes: int, each: int, width: int, seed: int = 0, distance: float = 3.0):
    """Features (n, d) about means that lie apart, and labels (n,)."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    return distance * rng.normal(size=(classes, width))[labels] + rng.normal(size=(len(labels), width)), labels


def doubts(features, names: list[str]) -> list[Finding]:
    files = tuple(f"{i}.jpg" for i in range(len(names)))
    found = review(Batch(features, tuple(names), (), files, tuple(range(len(names)))))
    return [one for one in found if one.kind == "mislabelled"]


@pytest.mark.parametrize("width", [5, 20, 200])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_swapped_labels_are_found_in_any_width_and_unit(width: int, scale: float):
    features, labels = clusters(4, 12, width, distance=8.0)
    labels[[3, 20, 40]] = [2, 3, 0]
    own = left_out_scores(features * scale, labels)[np.arange(len(labels)), labels]
    assert set(np.argsort(own)[:3].tolist()) == {3, 20, 40}
    found = doubts(features * scale, [f"class {one}" for one in labels])
    assert {one.photograph for one in found} == {"3.jpg", "20.jpg", "40.jpg"}
    assert {one.other for one in found} == {"class 0", "class 1", "class 3"}


def test_no_example_has_a_part_in_the_model_that_judges_it():
    """Random labels of pure noise: a model that had seen its examples would know some of them again."""
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(200, 300)), rng.integers(0, 4, 200)
    right = (left_out_scores(features, labels).argmax(axis=1) == labels).mean()
    assert abs(right - 0.25) < 0.12  # four standard errors


@pytest.mark.parametrize("width", [1, 3, 100])
def test_what_is_equal_or_alone_gives_numbers_and_names_nobody(width: int):
    for features in (np.zeros((6, width)), np.ones((6, width)), np.eye(6, width)):
        for labels in ([0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5], [0, 0, 0, 0, 0, 1]):
            assert np.isfinite(left_out_scores(features, np.array(labels))).all()
    assert doubts(np.eye(6, width), ["a"] * 6) == []
    assert doubts(np.eye(2, width), ["a", "b"]) == []


def test_a_careful_session_names_doubtful_photographs_and_learns_nothing(colours: Catalogue):
    photographs = made.photographs("pink", 6) + made.photographs("green", 1, seed=5)
    version = colours.version
    with pytest.raises(DoubtError, match=r"photograph 7 of 'rose' is said to show 'rose' and looks like 'green'"):
        colours.add("rose", photographs, careful=True)
    assert colours.version == version
    assert colours.add("rose", photographs[:6], careful=True).classes == ("rose",)
    assert colours.add("red", photographs[6:] * 2).classes == ("red",)  # not asked to be careful
