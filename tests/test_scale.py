"""The unit in which features come changes no prediction of the estimator, whatever the method.

A power of two changes no digit of a number, so that with it the answers are equal bit for bit. Any other factor rounds
the features anew, of which SGD can make much under the penalty ``norm``: there the labels of clear examples are equal.
"""

from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from subspan import IncrementalClassifier
from subspan.learners.registry import create_method, list_methods, method_options

QUICK = ":max_steps=100"  # steps of SGD that show it
METHODS = (
    *(name + QUICK * ("max_steps" in method_options(name)) for name in list_methods()),
    "finetune:solver=optimum",
    "subspace:without_mean=true,max_steps=100",
    *("auto", "ncm", "teen", "alice"),
)
WIDTH, BASE, NOVEL = 24, range(8), range(8, 11)


def photographs(classes, count, seed):
    """Features (n, d), with a mean that all classes share, and labels (n,)."""
    centers = 0.3 + 2 * np.random.default_rng(0).normal(size=(11, WIDTH))
    noise = np.random.default_rng([seed, count]).normal(size=(len(classes), count, WIDTH))
    return (centers[list(classes), None] + 0.4 * noise).reshape(-1, WIDTH), np.repeat(classes, count)


X, Y = photographs(BASE, 10, seed=0)
QUERIES, GOLD = photographs([c for c in (*BASE, *NOVEL) if c != 1], 5, seed=1)
VECTORS = np.random.default_rng(1).normal(size=(11, 4))


def vectors(spec, classes):
    """Embeddings of classes, where the method needs them."""
    return {c: VECTORS[c] for c in classes} if "embeddings" in create_method(spec).needs else None


def fitted(spec, scale, **parameters):
    method = "subspace" if spec == "auto" else spec
    model = IncrementalClassifier(method=spec, **parameters)
    return model.fit(X * scale, Y, embeddings=vectors(method, BASE))


def around_a_head(spec, scale, **parameters):
    method = "subspace" if spec == "auto" else spec
    head = LogisticRegression().fit(X, Y)
    means = X.reshape(len(BASE), -1, WIDTH).mean(1)
    covariance = (X - means[Y]).T @ (X - means[Y]) / len(X)
    parts = dict(means=means * scale, covariance=covariance * scale**2, embeddings=vectors(method, BASE))
    weights = head.coef_ / scale
    return IncrementalClassifier.from_weights(weights, BASE, head.intercept_, method=spec, **parts, **parameters)


@cache
def answers(begin, spec, dtype, scale=1.0):
    """Probabilities and labels of the queries after two sessions, more of a base and a novel class, one class less."""
    model = begin(spec, scale, memory=1, dtype=dtype)
    method = "subspace" if spec == "auto" else spec
    for number, classes in enumerate((NOVEL[:2], NOVEL[2:])):
        support, labels = photographs(classes, 5, seed=2 + number)
        model.add_classes(support * scale, labels, embeddings=vectors(method, classes))
    for c in (0, 8):
        more, labels = photographs([c], 3, seed=4)
        model.add_examples(more * scale, labels)
    model.remove_class(1)
    return model.predict_proba(QUERIES * scale), model.predict(QUERIES * scale)


every_way = pytest.mark.parametrize("begin", [fitted, around_a_head], ids=lambda begin: begin.__name__)
dtypes = st.sampled_from(["float32", "float64"])
quiet = pytest.mark.filterwarnings("ignore::subspan.learners.subspace.DegenerateSpanWarning")


@quiet
@every_way
@pytest.mark.parametrize("spec", METHODS)
@settings(max_examples=4)
@given(dtype=dtypes, exponent=st.integers(-20, 20))
@example(dtype="float32", exponent=-20)
@example(dtype="float32", exponent=20)
def test_a_power_of_two_changes_no_bit_of_an_answer(begin, spec, dtype, exponent):
    probabilities, labels = answers(begin, spec, dtype, 2.0**exponent)
    expected, same_labels = answers(begin, spec, dtype)
    if spec in ("posterior", "auto"):  # take logarithms of a scale, which round
        np.testing.assert_allclose(probabilities, expected, rtol=1e-6, atol=1e-12)
    else:
        np.testing.assert_array_equal(probabilities, expected)
    np.testing.assert_array_equal(labels, same_labels)


@quiet
@every_way
@pytest.mark.parametrize("spec", METHODS)
@settings(max_examples=3)
@given(dtype=dtypes, exponent=st.floats(-6, 6))
@example(dtype="float32", exponent=-6.0)
@example(dtype="float32", exponent=6.0)
def test_no_scale_changes_a_label(begin, spec, dtype, exponent):
    probabilities, labels = answers(begin, spec, dtype)
    second, first = np.sort(probabilities, axis=1)[:, -2:].T
    clear = first - second > 0.25
    assert clear.mean() > 0.5
    np.testing.assert_array_equal(answers(begin, spec, dtype, 10.0**exponent)[1][clear], labels[clear])


@pytest.mark.parametrize("scale", [1e-6, 0.037, 1e6])
@pytest.mark.parametrize("spec", ["fecam", "calibrated-fecam", "ranpac", "slda", "ncm:distance=euclidean"])
def test_no_scale_changes_a_label_where_scores_are_no_logits(spec, scale):
    np.testing.assert_array_equal(answers(fitted, spec, "float32", scale)[1], answers(fitted, spec, "float32")[1])


def clean_classes(classes, count, seed):
    """Features (n, 8) of classes that nothing confuses, and labels (n,)."""
    noise = np.random.default_rng(seed).normal(size=(len(classes) * count, 8))
    return np.eye(8)[np.repeat(classes, count)] * 8 + 0.3 * noise, np.repeat(classes, count)


@quiet
@pytest.mark.parametrize("scale", [1.0, 1000.0, 0.01, 1e-6, 1e6])
def test_the_default_keeps_old_classes_at_every_scale(scale):
    X, y = clean_classes(range(5), 20, seed=0)
    support, novel = clean_classes([5], 5, seed=1)
    model = IncrementalClassifier().fit(X * scale, y)
    assert model.method_ == "posterior"
    model.add_classes(support * scale, novel)
    queries, gold = clean_classes(range(6), 20, seed=2)
    assert (model.predict(queries * scale) == gold).all()


def test_fit_gives_rows_for_features_as_they_are_given():
    """Rows and biases score features as they come, also after a session in which they were learned in another unit."""
    model = fitted("finetune", 1000.0, dtype="float64")
    model.add_classes(*[part * 1000.0 if part.ndim == 2 else part for part in photographs([8], 5, seed=2)])
    scores = 1000.0 * QUERIES @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.class_scores(1000.0 * QUERIES), scores, rtol=1e-9)


def test_a_head_is_what_was_given_until_it_learns_and_after_undo():
    rng = np.random.default_rng(0)
    weights, bias = rng.normal(size=(6, 24)).astype(np.float32), rng.normal(size=6).astype(np.float32)
    model = IncrementalClassifier.from_weights(weights, range(6), bias, method="finetune:max_steps=0")
    model.add_classes(*photographs([8], 5, seed=2))
    np.testing.assert_allclose(model.coef_[:6], weights, rtol=1e-6)
    np.testing.assert_array_equal(model.undo().coef_, weights)
    np.testing.assert_array_equal(model.intercept_, bias)
