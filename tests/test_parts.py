"""A base session in parts is the base session, whatever comes when; models taught apart merge."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subspan import IncrementalClassifier

CLASSES, WIDTH = 6, 70
RNG = np.random.default_rng(0)
CENTRES = RNG.normal(size=(CLASSES, WIDTH))
y = np.repeat(np.arange(CLASSES), 12)
X = np.maximum(CENTRES[y] + RNG.normal(size=(len(y), WIDTH)), 0)
QUERIES = np.maximum(CENTRES + RNG.normal(size=(CLASSES, WIDTH)), 0)
NEW = np.maximum(RNG.normal(size=(5, WIDTH)), 0)


def model(**options) -> IncrementalClassifier:
    return IncrementalClassifier(dtype="float64", **options)


def same(found: IncrementalClassifier, expected: IncrementalClassifier) -> None:
    assert found.classes_.tolist() == expected.classes_.tolist()
    np.testing.assert_array_equal(found.examples_seen_, expected.examples_seen_)
    scores = expected.class_scores(QUERIES)
    np.testing.assert_allclose(found.class_scores(QUERIES), scores, rtol=1e-9, atol=1e-9 * np.abs(scores).max())


@settings(max_examples=25, deadline=None)
@given(order=st.permutations(range(len(y))), cuts=st.lists(st.integers(1, len(y) - 1), max_size=8, unique=True))
def test_parts_are_one_base_session(order: list[int], cuts: list[int]):
    """In any order and any partition, also where a part holds one class or one example; later sessions follow alike."""
    stream, expected = model(), model().fit(X, y)
    for part in np.split(np.array(order), sorted(cuts)):
        stream.partial_fit(X[part], y[part], classes=range(CLASSES))
    same(stream, expected)
    assert len(stream.sessions_) == 1
    assert stream.sessions_[0].examples == len(y)
    same(stream.add_classes(NEW, [9] * 5), expected.add_classes(NEW, [9] * 5))


def test_models_taught_apart_merge(tmp_path):
    """They are stored between, as by machines that share no memory, and have some classes in common."""
    half = np.arange(len(y)) % 2 == 0
    half[y == 3] = True
    apart = [model().partial_fit(X[part], y[part]) for part in (half, ~half)]
    loaded = [IncrementalClassifier.load(one.save(tmp_path / str(i))) for i, one in enumerate(apart)]
    same(loaded[1].merge(loaded[0]), model().fit(X, y))


def test_what_cannot_come_in_parts_is_refused():
    with pytest.raises(AttributeError, match="'subspace' cannot learn a base session in parts"):
        model(method="subspace").partial_fit(X, y)
    with pytest.raises(AttributeError, match="set memory=0"):
        model(memory=2).partial_fit(X, y)
    with pytest.raises(ValueError, match="class 5, which is not among the 5"):
        model().partial_fit(X, y, classes=range(5))
    begun = model().partial_fit(X, y)
    with pytest.raises(ValueError, match="X has 69 features, but IncrementalClassifier is expecting 70"):
        begun.partial_fit(X[:, 1:], y)
    with pytest.raises(ValueError, match="negative values in all of them or in none"):
        begun.partial_fit(X - 1, y)
    same(begun, model().fit(X, y))
    with pytest.raises(ValueError, match="the base session is over"):
        begun.add_classes(NEW, [9] * 5).partial_fit(X, y)
