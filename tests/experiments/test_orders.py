"""Sessions of other sizes, classes in other orders, base classes that play novel ones."""

from dataclasses import replace

import numpy as np
import pytest
from small_features import C0, C1, make_features

from subspan.experiments.inputs import ProtocolError
from subspan.experiments.multi_session import FIXED, RANDOM, MultiSession
from subspan.experiments.orders import in_order, order_by_names, with_held_out_classes
from subspan.experiments.report.results_table import results_table
from subspan.learners.registry import create_method

NAMES = {"base_names": [f"base {i}" for i in range(C0)], "novel_names": [f"novel {i}" for i in range(C1)]}
FIRST = MultiSession(ways=3, shots=2, draws=0)


def test_settings_that_nobody_gives_leave_the_hash_as_stored_results_have_it():
    assert (RANDOM.digest, FIXED.digest) == ("6f1ed69c24a9", "9e8d2dba92bd")
    assert len({FIRST.digest, replace(FIRST, sessions=(3, 3, 1)).digest, replace(FIRST, orders=2).digest}) == 3


def test_sizes_by_hand_are_the_usual_sessions_and_others_add_up():
    features, method = make_features(), create_method("prototype")
    usual = FIRST.run(features, method, memory=False)
    named = replace(FIRST, sessions=(3, 3, 1)).run(features, method, memory=False)
    np.testing.assert_array_equal(named.accuracy, usual.accuracy)
    found = replace(FIRST, sessions=(1, 4)).run(features, method, memory=False, keep_predictions=True)
    assert found.class_counts == (C0, C0 + 1, C0 + 5)
    assert found.predictions[0].labels.max() == C0 + 4, "classes of no session are not asked about"
    assert found.notes == ("2 novel classes are in no session.",)
    right = found.predictions[0].by_session[2][0] == found.predictions[0].labels
    assert found.accuracy[0, 2] == pytest.approx(100 * right.mean())
    with pytest.raises(ProtocolError, match="--sessions ask for 8 novel classes; the file has 7"):
        replace(FIRST, sessions=(4, 4)).run(features, method, memory=False)
    with pytest.raises(ProtocolError, match=r"each of --sessions must be at least 1; got 3, 0"):
        replace(FIRST, sessions=(3, 0))


def test_an_order_is_the_file_with_its_classes_in_that_order():
    """Against arrays that were put in this order by hand before a feature set was made of them."""
    features, order = make_features(**NAMES), np.array([3, 0, 6, 1, 2, 5, 4])
    arrays = {name: getattr(features, name) for name in ("base_weight", "base_mean", "base_memory", "base_test")}
    by_hand = make_features(
        **arrays,
        base_test_labels=features.base_test_labels,
        novel_test=features.novel_test.reshape(C1, 4, -1)[order],
        novel_support=features.novel_support.reshape(C1, 4, 2, -1)[order],
        **{**NAMES, "novel_names": [NAMES["novel_names"][i] for i in order]},
    )
    names = by_hand.class_names[C0:]
    protocol = replace(FIRST, order=names)
    for method in ("prototype", "subspace:max_steps=10"):
        expected = FIRST.run(by_hand, create_method(method), memory=True)
        found = protocol.run(features, create_method(method), memory=True)
        np.testing.assert_allclose(found.novel, expected.novel)
        np.testing.assert_allclose(found.forgetting, expected.forgetting)
    vectors = np.arange(C0 + C1)[:, None]
    assert in_order(features, vectors, order)[1][C0:, 0].tolist() == (C0 + order).tolist()
    np.testing.assert_array_equal(order_by_names(features, names), order)
    for wrong, sentence in (
        (names[1:], "lacks"),
        (("x", *names[1:]), "lacks"),
        ((*names, "x"), "has 'x', which is none"),
    ):
        with pytest.raises(ProtocolError, match=sentence):
            order_by_names(features, wrong)


def test_draws_over_orders_are_the_orders_one_by_one_and_tell_their_spread():
    features, method = make_features(), create_method("imprint")
    several = replace(FIRST, draws=2, orders=3, order_seed=4)
    found = several.run(features, method, memory=False)
    alone = [replace(several, orders=1, order_seed=seed).run(features, method, memory=False) for seed in (4, 5, 6)]
    np.testing.assert_array_equal(found.accuracy, np.concatenate([one.accuracy for one in alone]))
    assert found.orders.tolist() == [0, 0, 1, 1, 2, 2]
    means = [one.average[:, -1].mean() for one in alone]
    np.testing.assert_allclose(found.samples(found.average[:, -1]), means)
    notes = " ".join(results_table([found]).notes)
    assert "over 3 orders of the classes, 6 runs in all" in notes
    assert f"from {min(means):.2f} to {max(means):.2f}, standard deviation {np.std(means, ddof=1):.2f}" in notes
    assert len({tuple(row) for row in found.accuracy[:, 1:]}) > 1


def test_held_out_base_classes_play_novel_ones():
    features = make_features(test=6, **NAMES)
    found = with_held_out_classes(features, 4, seed=1)
    assert (found.base_count, found.novel_count) == (C0 - 4, 4)
    assert sorted(found.class_names) == sorted(NAMES["base_names"]), "its own novel classes are not there"
    for c, name in enumerate(found.class_names):
        own = int(name.split()[1])
        images = features.base_test[features.base_test_labels == own]
        if c < found.base_count:
            np.testing.assert_array_equal(found.base_weight[c], features.base_weight[own])
            np.testing.assert_array_equal(found.base_test[found.base_test_labels == c], images)
        else:
            novel = c - found.base_count
            np.testing.assert_array_equal(found.novel_support[found.novel_support_labels == novel][:, 0], images[:3])
            np.testing.assert_array_equal(found.novel_test[found.novel_test_labels == novel], images[3:])
        np.testing.assert_array_equal(found.embeddings["names"][c], features.embeddings["names"][own])
    result = FIRST.run(found, create_method("prototype"), memory=True)
    assert result.class_counts == (7, 10, 11)
