"""Many classes: rows that grow without a copy, single precision that changes no answer, and sums that come in parts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_posterior import answers, gaussian, taught

from subspan.learners import posterior
from subspan.learners.parts import within_space
from subspan.learners.parts.blocks import with_room


@given(grown=st.lists(st.tuples(st.integers(0, 8), st.integers(1, 30)), min_size=1, max_size=12))
def test_rows_with_room_are_those_of_a_copy(grown: list[tuple[int, int]]):
    """Any array may grow, the last or one before it, as after an undo; all keep what they held."""
    made = [np.arange(12.0).reshape(6, 2)]
    expected = [made[0].copy()]
    for number, (which, more) in enumerate(grown):
        place = which % len(made)
        rows = with_room(made[place], more)
        rows[-more:] = number
        made.append(rows)
        expected.append(np.concatenate([expected[place], np.full((more, 2), float(number))]))
    for rows, held in zip(made, expected, strict=True):
        np.testing.assert_array_equal(rows, held)


def test_rows_grow_where_they_lie():
    first = with_room(np.ones((100, 3)), 1)
    assert np.shares_memory(with_room(first, 2), first)
    assert not np.shares_memory(with_room(first, 2), first)  # what lies behind belongs to the other by now


@pytest.mark.parametrize(("classes", "each", "width"), [(12, 30, 80), (100, 9, 64), (12, 3, 80), (5, 40, 8)])
def test_single_precision_changes_no_answer(classes: int, each: int, width: int, monkeypatch: pytest.MonkeyPatch):
    """A full basis and one that leaves dimensions out, more classes than dimensions and fewer: rounding is the rest."""
    X, y, queries, _ = gaussian(classes, each, width, seed=1)
    expected = answers(taught(X, y), queries)
    for module in (posterior, within_space):
        monkeypatch.setattr(module, "MANY", 1)
    found = answers(taught(X, y), queries)
    lead = np.ptp(expected, 1, keepdims=True)
    np.testing.assert_allclose(found / lead, expected / lead, atol=2e-5)
    best, second = np.sort(expected, 1)[:, -1:], np.sort(expected, 1)[:, -2:-1]
    clear = ((best - second) > 1e-4 * lead)[:, 0]
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(found.argmax(1)[clear], expected.argmax(1)[clear])
