"""Probabilities and familiarity of the default method: against naive forms, and on classes that are known exactly."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal

from subspan import IncrementalClassifier
from subspan.learners.parts.tempered import NODES, SPREAD, tempered
from subspan.learners.posterior import UNSEEN, Posterior, _Evidence


def gaussians(classes: int, each: int, width: int, seed: int = 0, distance: float = 6.0):
    """Examples (n, width) and labels (n,) of classes with one covariance."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, width)) * distance / width**0.5
    labels = np.repeat(np.arange(classes), each)
    return centres[labels] + rng.normal(size=(len(labels), width)), labels


def test_tempered_scores_are_the_mean_of_softmaxes_and_keep_the_order():
    densities = np.random.default_rng(0).normal(size=(50, 7)) * 200
    wanted = sum(weight * softmax(densities / (9.0 * np.exp(SPREAD * place)), axis=1) for place, weight in NODES)
    found = tempered(densities, np.array(9.0))
    np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-9)
    np.testing.assert_array_equal(found.argsort(axis=1), densities.argsort(axis=1))
    np.testing.assert_allclose(tempered(torch.tensor(densities), torch.tensor(9.0)).numpy(), found, atol=1e-10)


def state_of(model: IncrementalClassifier):
    return model._now()[0].learned.mapped(np.asarray)


@pytest.mark.parametrize(("width", "each"), [(8, 30), (80, 40), (80, 5)])  # few features; a matrix; a thin factor
def test_evidence_is_what_naive_normals_say(width: int, each: int):
    X, y = gaussians(6, each, width)
    model = IncrementalClassifier(dtype="float64").fit(X[y < 4], y[y < 4])
    model.add_classes(X[y >= 4][::2], y[y >= 4][::2])
    state, rule = state_of(model), Posterior().evidence
    assert isinstance(rule, _Evidence)
    derived = rule._densities(state)
    space, weights, curvature = derived[:4], derived[4], derived[5]
    _, prior, _, _ = rule._model(state)
    placed, square = rule._placed(state, X, space, np.float64)
    share = prior.share
    covariance = ((1 - share) * prior.level + prior.noise) * np.eye(placed.shape[1])
    covariance += share * (prior.directions.T * prior.along) @ prior.directions
    rest = width - placed.shape[1]
    beyond = np.maximum(square - (placed**2).sum(1), 0)
    plain = (1 - share) * prior.level + prior.noise
    unseen = multivariate_normal(prior.middle, covariance).logpdf(placed)
    unseen += -beyond / (2 * plain) - rest / 2 * np.log(2 * np.pi * plain)
    means, variance = weights / (2 * curvature)[:, None], 0.5 / curvature
    away = ((placed[:, None] - means) ** 2).sum(-1) + beyond[:, None]
    densities = -away / (2 * variance) - width / 2 * np.log(2 * np.pi * variance)
    wanted = logsumexp((densities - UNSEEN * unseen[:, None]) / (0.28 * width**0.5), axis=1)
    np.testing.assert_allclose(model.familiarity(X), wanted, rtol=1e-5)


@pytest.mark.parametrize("width", [6, 100])
def test_strangers_are_less_familiar_than_classes_of_a_handful_of_examples(width: int):
    X, y = gaussians(12, 40, width, distance=9.0)
    model = IncrementalClassifier().fit(X[y < 6], y[y < 6])
    few = np.concatenate([np.flatnonzero(y == place)[:5] for place in (6, 7, 8)])
    model.add_classes(X[few], y[few])
    asked, true = gaussians(12, 30, width, seed=1, distance=9.0)
    familiar = model.familiarity(asked)
    pairs = familiar[true < 9][:, None] > familiar[true >= 9]
    assert pairs.mean() > 0.9


def test_familiarity_does_not_depend_on_the_order_of_sessions():
    X, y = gaussians(8, 12, 100)
    asked, _ = gaussians(8, 3, 100, seed=1)
    found = []
    for order in ((5, 6, 7), (7, 5, 6)):
        model = IncrementalClassifier(dtype="float64").fit(X[y < 5], y[y < 5])
        for place in order:
            model.add_classes(X[y == place], y[y == place])
        found.append(model.familiarity(asked))
    np.testing.assert_allclose(*found, rtol=1e-7)


@pytest.mark.parametrize("width", [2, 70])
@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_examples_of_two_classes_give_numbers(width: int, count: int):
    X, y = gaussians(2, count, width)
    model = IncrementalClassifier().fit(X, y)
    assert np.isfinite(model.familiarity(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-6)


def test_other_methods_have_the_free_energy_of_their_scores():
    X, y = gaussians(4, 10, 20)
    model = IncrementalClassifier(method="prototype").fit(X, y)
    np.testing.assert_allclose(model.familiarity(X), logsumexp(model.class_scores(X), axis=1), rtol=1e-5)
