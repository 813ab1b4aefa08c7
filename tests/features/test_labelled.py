"""A feature file from features and labels: who is what, against numpy and scikit-learn on the same examples."""

import numpy as np
import pytest

from subspan.features.feature_set import FeatureSet

RNG = np.random.default_rng(0)
NAMES = ("ash", "beech", "cedar", "dogwood", "elm")
CENTRES = 4 * RNG.standard_normal((5, 6))
LABELS = np.array(NAMES)[RNG.permutation(np.repeat(np.arange(5), 20))]
FEATURES = CENTRES[[NAMES.index(label) for label in LABELS]] + RNG.standard_normal((100, 6))
QUERIES = np.array(NAMES * 3), CENTRES[[*range(5)] * 3]
BASE = ["elm", "ash", "cedar"]


def made(**more) -> FeatureSet:
    return FeatureSet.from_labelled(FEATURES, LABELS, BASE, test=QUERIES[::-1], **more)


def test_statistics_are_those_of_the_examples_in_the_unit():
    features = made()
    unit = features.meta["unit"]
    of_base = FEATURES[np.isin(LABELS, BASE)]
    assert unit == pytest.approx(np.sqrt((of_base**2).sum(1).mean()) / 11.5)
    parts = [FEATURES[label == LABELS] / unit for label in BASE]
    np.testing.assert_allclose(features.base_mean, [part.mean(0) for part in parts], rtol=1e-5)
    expected = sum((len(part) - 1) * np.cov(part.T) for part in parts) / (60 - 3)
    np.testing.assert_allclose(features.base_covariance, expected, rtol=1e-4, atol=1e-6)
    for example, part in zip(features.base_memory, parts, strict=True):
        assert np.isclose(part, example, rtol=1e-5).all(1).sum() == 1, "one of its own examples"
    assert features.class_names == ("elm", "ash", "cedar", "beech", "dogwood")


def test_rows_are_at_the_optimum_of_the_decayed_loss():
    """The gradient of cross-entropy and decay, by hand, is nothing beside that of rows of zeros."""
    features = made()
    x = np.concatenate([FEATURES[label == LABELS] for label in BASE]) / features.meta["unit"]
    wanted = np.repeat(np.eye(3), 20, axis=0)

    def gradient(rows: np.ndarray, bias: np.ndarray) -> np.ndarray:
        scores = x @ rows.T + bias
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        return (shares - wanted).T @ x / len(x) + 5e-4 * rows

    at_rest = gradient(features.base_weight.astype(float), features.base_bias.astype(float))
    assert np.linalg.norm(at_rest) < 1e-3 * np.linalg.norm(gradient(np.zeros((3, 6)), np.zeros(3)))


def test_without_test_examples_every_fifth_is_one_and_none_serves_twice():
    features = FeatureSet.from_labelled(FEATURES, LABELS, BASE, seed=3)
    assert np.bincount(features.base_test_labels).tolist() == [4] * 3
    assert np.bincount(features.novel_test_labels).tolist() == [4] * 2
    assert features.novel_support.shape == (2 * 16, 1, 6)
    novel = np.concatenate([features.novel_test, features.novel_support[:, 0]]) * features.meta["unit"]
    given = FEATURES[~np.isin(LABELS, BASE)]
    np.testing.assert_allclose(novel[np.lexsort(novel.T)], given[np.lexsort(given.T)], rtol=1e-4, atol=1e-5)
    again, other = (FeatureSet.from_labelled(FEATURES, LABELS, BASE, seed=seed) for seed in (3, 4))
    np.testing.assert_array_equal(again.base_test, features.base_test)
    assert not np.array_equal(other.base_test, features.base_test)


def test_a_scale_of_all_features_changes_nothing():
    small = FeatureSet.from_labelled(FEATURES / 1000, LABELS, BASE, test=(QUERIES[1] / 1000, QUERIES[0]))
    for name in ("base_mean", "base_test", "novel_support", "base_covariance"):
        np.testing.assert_allclose(getattr(small, name), getattr(made(), name), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("base", "test", "message"),
    [
        (["ash", "oak"], None, "every base class needs examples; 'oak' has none"),
        (NAMES, None, "some classes must be novel; all 5 are base classes"),
        (BASE, (CENTRES[:4], NAMES[:4]), "every class needs a test example; 'elm' has none"),
        (BASE, (CENTRES[:, :3], NAMES), r"features must be \(n, 6\)"),
    ],
)
def test_what_does_not_fit_is_named(base, test, message):
    with pytest.raises(ValueError, match=message):
        FeatureSet.from_labelled(FEATURES, LABELS, base, test=test)


def test_whole_numbers_are_labels_too():
    features = FeatureSet.from_labelled(FEATURES, np.unique(LABELS, return_inverse=True)[1], [4, 0, 2])
    assert features.class_names == ("4", "0", "2", "1", "3")
