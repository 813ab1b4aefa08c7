"""The engine gives every learner the arrays it works with, and everybody the kind that they came with."""

import pickle

import numpy as np
import pytest
import torch

from subspan.engine import sessions
from subspan.engine.contract import Base, State
from subspan.learners.registry import create_method

RNG = np.random.default_rng(0)
MEANS = RNG.normal(size=(12, 20))
BASE = Base(MEANS + 0.1, MEANS, covariance=np.diag(RNG.random(20) + 1))
SUPPORT, LABELS = RNG.normal(size=(6, 20)), np.repeat([12, 13], 3)
QUERIES = RNG.normal(size=(7, 20))


def ran(spec, change):
    """States and scores of two sessions, from arrays changed first."""
    method = create_method(spec)
    state = sessions.start(method, BASE.mapped(change))
    session = sessions.session_of(change(SUPPORT), change(LABELS), (12, 13))
    after = sessions.learn(method, state, session)
    return after, sessions.scores(method, after, change(QUERIES))


@pytest.mark.parametrize("spec", ["calibrated", "prototype", "teen", "ncm", "subspace:solver=optimum", "fecam:tukey=1"])
def test_arrays_and_tensors_give_the_same_each_in_its_kind(spec):
    of_arrays, scores = ran(spec, np.asarray)
    of_tensors, scored = ran(spec, torch.tensor)
    assert (type(scores), type(scored)) == (np.ndarray, torch.Tensor)
    np.testing.assert_allclose(scores, scored.numpy(), rtol=1e-9, atol=1e-9)
    for name, array in of_arrays.arrays.items():
        assert (type(array), type(of_tensors[name])) == (np.ndarray, torch.Tensor)
        np.testing.assert_allclose(array, of_tensors[name].numpy(), rtol=1e-9, atol=1e-9)
    assert (type(of_arrays.base.means), type(of_tensors.base.means)) == (np.ndarray, torch.Tensor)


@pytest.mark.parametrize("spec", ["calibrated", "teen"])
def test_a_batch_of_tensors_is_learned_in_numpy_problem_by_problem(spec):
    method, supports = create_method(spec), torch.tensor(RNG.normal(size=(3, 6, 20)))
    base = BASE.mapped(torch.tensor)
    together = sessions.session_of(supports, torch.tensor(LABELS).expand(3, -1), (12, 13))
    after = sessions.learn_together(method, [(sessions.start(method, base, 3), together)])[0]
    assert sessions.steps_of(after, 3).tolist() == [0, 0, 0]
    for rows, support in zip(after.rows, supports, strict=True):
        alone = sessions.session_of(support, torch.tensor(LABELS), (12, 13))
        torch.testing.assert_close(rows, sessions.learn(method, sessions.start(method, base), alone).rows)


@pytest.mark.parametrize("spec", ["calibrated", "subspace:solver=optimum", "ncm:distance=euclidean"])
def test_what_is_exported_scores_as_the_learner(spec):
    method = create_method(spec)
    after, scores = ran(spec, np.asarray)
    score = sessions.exported(method, after, torch.float64)
    np.testing.assert_allclose(score(torch.tensor(QUERIES)).numpy(), scores, rtol=1e-9, atol=1e-9)


def test_what_follows_from_a_state_is_made_once_and_goes_no_further():
    state, made = State(BASE, {"rows": MEANS}), []

    def derived():
        made.append(1)
        return len(made)

    assert [state.once("key", derived), state.once("key", derived)] == [1, 1]
    assert state.after(rows=MEANS).once("key", derived) == 2
    assert pickle.loads(pickle.dumps(state)).once("key", derived) == 3


def test_what_a_learner_cannot_do_is_one_sentence():
    method = create_method("teen")
    state = sessions.start(method, BASE)
    with pytest.raises(ValueError, match="method 'teen' cannot merge what two models know"):
        sessions.merge(method, state, state)
