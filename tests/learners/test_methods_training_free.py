"""The training-free methods by hand: imprinted rows and centred prototypes."""

from dataclasses import replace

import numpy as np
import torch

from subspan.engine.contract import Base
from subspan.engine.sessions import session_of
from subspan.engine.statistics import class_means
from subspan.learners.registry import create_method

BASE = Base(
    rows=np.array([[3.0, 4.0], [0.0, 2.0]], dtype=np.float64),
    means=np.array([[2.0, 0.0], [0.0, 4.0]], dtype=np.float64),
)
SUPPORT = np.array([[1.0, 0.0], [3.0, 6.0], [-5.0, 0.0]], dtype=np.float64)
LABELS = np.array([2, 2, 3])


def learn(method, base=BASE):
    return method.learn(method.start(base), session_of(SUPPORT, LABELS, (2, 3)))


def test_imprint_by_hand():
    method = create_method("imprint")
    after = learn(method)
    # base rows over their lengths 5 and 2; support means (2, 3) over sqrt 13, and (-5, 0) over 5
    expected = [[0.6, 0.8], [0.0, 1.0], [2 / 13**0.5, 3 / 13**0.5], [-1.0, 0.0]]
    np.testing.assert_allclose(after.rows, expected, rtol=1e-12)
    assert int(after.steps) == 0
    scores = method.scores(after, np.array([[0.0, 5.0]], dtype=np.float64))
    np.testing.assert_allclose(scores[0] / 16, [0.8, 1.0, 3 / 13**0.5, 0.0], rtol=1e-12, atol=1e-12)


def test_prototype_by_hand():
    """The centre of the means (2, 0) and (0, 4) is (1, 2)."""
    method = create_method("prototype")
    after = learn(method)
    # support means minus the centre: (2, 3) - (1, 2) = (1, 1); (-5, 0) - (1, 2) = (-6, -2)
    expected = [[0.6, 0.8], [0.0, 1.0], [0.5**0.5, 0.5**0.5], [-6 / 40**0.5, -2 / 40**0.5]]
    np.testing.assert_allclose(after.rows, expected, rtol=1e-12)
    # the query (1, 5) is (0, 3) from the centre, so its cosines are the rows' second coordinates
    scores = method.scores(after, np.array([[1.0, 5.0]], dtype=np.float64))
    np.testing.assert_allclose(scores[0] / 16, [row[1] for row in expected], rtol=1e-12)


def test_prototype_of_means_by_hand():
    rows = create_method("prototype:base=means").start(BASE).rows
    # means minus the centre: (1, -2) and (-1, 2)
    np.testing.assert_allclose(rows, np.array([[1, -2], [-1, 2]]) / 5**0.5, rtol=1e-12)


def test_prototype_without_centring_is_imprinting():
    plain, imprint = create_method("prototype:centred=false"), create_method("imprint")
    np.testing.assert_array_equal(learn(plain).rows, learn(imprint).rows)
    queries = np.array([[1.0, 5.0], [-2.0, 0.5]], dtype=np.float64)
    np.testing.assert_array_equal(plain.scores(learn(plain), queries), imprint.scores(learn(imprint), queries))


def test_needs_follow_the_options():
    assert create_method("prototype").needs == {"means"}
    assert create_method("prototype:centred=false,base=means").needs == {"means"}
    assert create_method("prototype:centred=false").needs == frozenset()
    assert create_method("imprint").needs == frozenset()
    assert create_method("semantic").needs == {"embeddings"}


def test_the_scale_sharpens_probabilities_only():
    queries = np.array([[1.0, 5.0], [-2.0, 0.5]], dtype=np.float64)
    state = learn(create_method("imprint"))
    soft, sharp = (create_method("imprint", scale=s).scores(state, queries) for s in (1.0, 30.0))
    np.testing.assert_allclose(sharp, 30 * soft, rtol=1e-12)
    np.testing.assert_array_equal(soft.argmax(1), sharp.argmax(1))


def test_class_means_by_a_loop():
    rng = np.random.default_rng(0)
    support, labels = rng.random((3, 10, 4)), rng.integers(5, 8, (3, 10))
    labels[:, :3] = np.array([5, 6, 7])
    means = class_means(support, labels, (5, 6, 7))
    for e in range(3):
        for k, c in enumerate((5, 6, 7)):
            np.testing.assert_allclose(means[e, k], support[e][labels[e] == c].mean(0), rtol=1e-12)
    of_tensors = class_means(torch.tensor(support), torch.tensor(labels), (5, 6, 7))
    np.testing.assert_allclose(of_tensors, means, rtol=1e-12)


def test_calibrated_by_hand():
    """Covariance diag(3, 0) and 2/3 of its mean eigenvalue 1.5 give diag(4, 1), so z(x) is ((x - 1) / 2, y - 2)."""
    base = replace(BASE, covariance=np.array([[3.0, 0.0], [0.0, 0.0]], dtype=np.float64))
    method = create_method("calibrated", shrinkage=2 / 3, learned=0.25, pull=0.5, sharpness=2.0, offset=0.1)

    def unit(x, y):
        return np.array([x, y]) / np.hypot(x, y)

    # learned rows (3, 4) and (0, 2) times diag(2, 1); means (2, 0) and (0, 4) as z
    known = [0.25 * unit(6, 4) + 0.75 * unit(0.5, -2), 0.25 * unit(0, 2) + 0.75 * unit(-0.5, 2)]
    known = [unit(*row) for row in known]
    np.testing.assert_allclose(method.start(base).rows, known, rtol=1e-12)
    expected = list(known)
    for own in (unit(0.5, 1), unit(-3, -2)):  # support means (2, 3) and (-5, 0) as z
        shares = np.exp([2 * own @ row for row in known])
        target = unit(*(shares / shares.sum() @ np.array(known)))
        expected.append(unit(*(0.5 * own + 0.5 * target)))
    after = learn(method, base)
    np.testing.assert_allclose(after.rows, expected, rtol=1e-12)
    scores = method.scores(after, np.array([[5.0, 3.0]], dtype=np.float64))  # z = (2, 1)
    np.testing.assert_allclose(
        scores[0] / 16, [unit(2, 1) @ row for row in expected] + np.array([0, 0, 0.1, 0.1]), rtol=1e-12
    )


def test_calibrated_without_its_corrections_is_the_prototype_of_means():
    plain = create_method("calibrated:whiten=false,learned=0,pull=0,offset=0")
    prototype = create_method("prototype:base=means")
    np.testing.assert_allclose(learn(plain).rows, learn(prototype).rows, rtol=1e-12)


def test_a_covariance_of_nothing_whitens_nothing():
    base = replace(BASE, covariance=np.zeros((2, 2), dtype=np.float64))
    rows = create_method("calibrated:learned=0").start(base).rows
    np.testing.assert_allclose(rows, create_method("prototype:base=means").start(BASE).rows, rtol=1e-12)
