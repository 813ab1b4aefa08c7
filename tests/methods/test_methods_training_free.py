"""The training-free methods by hand: imprinted rows and centred prototypes."""

import numpy as np
import torch

from subspan.methods import BaseSession, Head, Session, create_method
from subspan.methods.base import class_means

BASE = BaseSession(
    rows=torch.tensor([[3.0, 4.0], [0.0, 2.0]], dtype=torch.float64),
    means=torch.tensor([[2.0, 0.0], [0.0, 4.0]], dtype=torch.float64),
)
SUPPORT = torch.tensor([[1.0, 0.0], [3.0, 6.0], [-5.0, 0.0]], dtype=torch.float64)
LABELS = torch.tensor([2, 2, 3])


def learn(method):
    rows = torch.cat([method.base_rows(BASE), torch.zeros(2, 2, dtype=torch.float64)])
    means = class_means(SUPPORT, LABELS, (2, 3))
    return method.learn(BASE, Head(rows, rows, 2, (2, 3), means), Session(SUPPORT, LABELS))


def test_imprint_by_hand():
    method = create_method("imprint")
    update = learn(method)
    # base rows over their lengths 5 and 2; support means (2, 3) over sqrt 13, and (-5, 0) over 5
    expected = [[0.6, 0.8], [0.0, 1.0], [2 / 13**0.5, 3 / 13**0.5], [-1.0, 0.0]]
    np.testing.assert_allclose(update.rows, expected, rtol=1e-12)
    assert int(update.steps) == 0
    scores = method.scores(BASE, update.rows, torch.tensor([[0.0, 5.0]], dtype=torch.float64))
    np.testing.assert_allclose(scores[0] / 16, [0.8, 1.0, 3 / 13**0.5, 0.0], rtol=1e-12, atol=1e-12)


def test_prototype_by_hand():
    """The centre of the means (2, 0) and (0, 4) is (1, 2)."""
    method = create_method("prototype")
    update = learn(method)
    # support means minus the centre: (2, 3) - (1, 2) = (1, 1); (-5, 0) - (1, 2) = (-6, -2)
    expected = [[0.6, 0.8], [0.0, 1.0], [0.5**0.5, 0.5**0.5], [-6 / 40**0.5, -2 / 40**0.5]]
    np.testing.assert_allclose(update.rows, expected, rtol=1e-12)
    # the query (1, 5) is (0, 3) from the centre, so its cosines are the rows' second coordinates
    scores = method.scores(BASE, update.rows, torch.tensor([[1.0, 5.0]], dtype=torch.float64))
    np.testing.assert_allclose(scores[0] / 16, [row[1] for row in expected], rtol=1e-12)


def test_prototype_of_means_by_hand():
    rows = create_method("prototype:base=means").base_rows(BASE)
    # means minus the centre: (1, -2) and (-1, 2)
    np.testing.assert_allclose(rows, np.array([[1, -2], [-1, 2]]) / 5**0.5, rtol=1e-12)


def test_prototype_without_centring_is_imprinting():
    plain, imprint = create_method("prototype:centred=false"), create_method("imprint")
    np.testing.assert_array_equal(learn(plain).rows, learn(imprint).rows)
    queries = torch.tensor([[1.0, 5.0], [-2.0, 0.5]], dtype=torch.float64)
    np.testing.assert_array_equal(
        plain.scores(BASE, learn(plain).rows, queries), imprint.scores(BASE, learn(imprint).rows, queries)
    )


def test_needs_follow_the_options():
    assert create_method("prototype").needs == {"means"}
    assert create_method("prototype:centred=false,base=means").needs == {"means"}
    assert create_method("prototype:centred=false").needs == frozenset()
    assert create_method("imprint").needs == frozenset()
    assert create_method("semantic").needs == {"embeddings"}


def test_the_scale_sharpens_probabilities_only():
    queries = torch.tensor([[1.0, 5.0], [-2.0, 0.5]], dtype=torch.float64)
    rows = learn(create_method("imprint")).rows
    soft, sharp = (create_method("imprint", scale=s).scores(BASE, rows, queries) for s in (1.0, 30.0))
    np.testing.assert_allclose(sharp, 30 * soft, rtol=1e-12)
    assert torch.equal(soft.argmax(1), sharp.argmax(1))


def test_class_means_by_a_loop():
    generator = torch.Generator().manual_seed(0)
    support = torch.rand(3, 10, 4, generator=generator)
    labels = torch.randint(5, 8, (3, 10), generator=generator)
    labels[:, :3] = torch.tensor([5, 6, 7])
    means = class_means(support, labels, (5, 6, 7))
    for e in range(3):
        for k, c in enumerate((5, 6, 7)):
            torch.testing.assert_close(means[e, k], support[e][labels[e] == c].mean(0))
