"""Every registered method passes the common suite; scikit-learn's suite passes; ours catches what it is for."""

import random
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_rules import RULES
from subspan import IncrementalClassifier, checks
from subspan.engine.contract import Session, State
from subspan.learners.finetune import Finetune
from subspan.learners.parts.rows import RowLearner, with_places
from subspan.learners.registry import create_method, list_methods, method_options, register


def quick(name: str) -> str:
    """A method that is done soon: the rules hold after any number of steps."""
    return f"{name}:max_steps=120" if "max_steps" in method_options(name) else name


@pytest.mark.parametrize("check", [*checks.list_checks(), *RULES], ids=lambda check: check.__name__)
@pytest.mark.parametrize("method", list_methods())
def test_method(method, check):
    check(quick(method))


@pytest.mark.parametrize("check", [*checks.list_checks(), *RULES], ids=lambda check: check.__name__)
def test_what_the_estimator_chooses_by_itself(check):
    check("auto")


def test_a_method_with_options_as_text_or_itself():
    spec = "semantic:old_penalty=squared,new_rows=zeros,max_steps=50"
    checks.check_method(spec)
    checks.check_method(create_method(spec))


@pytest.mark.parametrize("check", [checks.check_one_example, checks.check_same_seed_same_result])
def test_the_exact_minimum(check):
    check("subspace:solver=optimum")


@parametrize_with_checks(
    [IncrementalClassifier()]
    + [IncrementalClassifier(method=name) for name in ("subspace", "finetune", "imprint", "prototype")]
    + [IncrementalClassifier(method="finetune", memory=2, bias=False, dtype="float64")]
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# A suite that nothing fails checks nothing: one broken method for each rule.


@dataclass(frozen=True)
class Broken(RowLearner):
    """Novel rows are support means; what a subclass adds is wrong."""

    moves_old_rows = False

    def learn(self, state: State, session: Session) -> State:
        rows = with_places(state.rows, session)
        rows[list(session.classes)] = session.means
        return state.after(rows=self.spoil(rows, state, session))

    def spoil(self, rows, state, session):
        return rows


@dataclass(frozen=True)
class Reorders(Broken):
    def spoil(self, rows, state, session):
        return rows.roll(1, dims=0)


@dataclass(frozen=True)
class DrawsFromTorch(Broken):
    def spoil(self, rows, state, session):
        return rows + 1e-3 * torch.rand(rows.shape)


@dataclass(frozen=True)
class DrawsFromNumpy(Broken):
    def spoil(self, rows, state, session):
        np.random.rand()
        return rows


@dataclass(frozen=True)
class DrawsFromPython(Broken):
    def spoil(self, rows, state, session):
        random.random()
        return rows


@dataclass(frozen=True)
class ReadsGlobalState(Broken):
    def spoil(self, rows, state, session):
        return rows + torch.get_rng_state()[:8].sum()


@dataclass(frozen=True)
class Divides(Broken):
    def spoil(self, rows, state, session):
        return rows / rows.norm(dim=1, keepdim=True)


@dataclass(frozen=True)
class NeedsTwoExamples(Broken):
    def spoil(self, rows, state, session):
        return rows + session.support.var(0, correction=0) / (len(session.support) - 1)


@dataclass(frozen=True)
class WritesIntoItsInput(Broken):
    def spoil(self, rows, state, session):
        state.rows.add_(1.0)
        session.support.mul_(2.0)
        return rows


@dataclass(frozen=True)
class Counts(Broken):
    calls = [0]  # noqa: RUF012

    def spoil(self, rows, state, session):
        self.calls[0] += 1
        return rows + self.calls[0]


@dataclass(frozen=True)
class ForgetsOldClasses(Broken):
    def spoil(self, rows, state, session):
        rows[: state.base_count] = 0
        return rows


@dataclass(frozen=True)
class ScoresByNumberOfClasses(Broken):
    def scores(self, state, queries):
        return super().scores(state, queries) / len(state.rows)


@dataclass(frozen=True)
class ClaimsToScoreApart(ScoresByNumberOfClasses):
    scores_apart = True


@dataclass(frozen=True)
class ClaimsToLeaveRowsAlone(Broken):
    scores_apart = True

    def spoil(self, rows, state, session):
        rows[: state.base_count] *= 0.9
        return rows


@dataclass(frozen=True)
class CentersQueries(Broken):
    def scores(self, state, queries):
        return super().scores(state, queries - queries.mean(-2, keepdims=True))


BROKEN = {
    CentersQueries: "check_scores_of_one_query",
    ClaimsToScoreApart: "check_scores_that_stand_apart",
    ClaimsToLeaveRowsAlone: "check_scores_that_stand_apart",
    Reorders: "check_old_classes_keep_their_rows",
    ForgetsOldClasses: "check_old_classes_keep_their_rows",
    Counts: "check_same_seed_same_result",
    DrawsFromTorch: "check_global_random_state",
    DrawsFromNumpy: "check_global_random_state",
    DrawsFromPython: "check_global_random_state",
    ReadsGlobalState: "check_global_random_state",
    Divides: "check_finite",
    NeedsTwoExamples: "check_one_example",
    ScoresByNumberOfClasses: "check_remove_class",
}


@pytest.fixture
def registered(forgotten_methods):
    """Register methods for one test only."""

    def add(method, name):
        method.name, method.summary = name, "for a test"
        return register(method).name

    return add


@pytest.mark.parametrize("method", BROKEN, ids=lambda method: method.__name__)
def test_the_suite_catches(method, registered):
    name = registered(method, "broken")
    with pytest.raises((AssertionError, ValueError)):
        getattr(checks, BROKEN[method])(name)
    with pytest.raises((AssertionError, ValueError)) as caught:
        checks.check_method(name)
    assert "of method 'broken'" in caught.value.__notes__[0]


def test_the_suite_passes_what_is_right(registered):
    checks.check_method(registered(Broken, "right"))


def test_a_method_that_writes_into_its_input_cannot_hurt_the_model(registered):
    """The estimator hands out copies, so that even this method leaves undo and memory exact."""
    checks.check_undo(registered(WritesIntoItsInput, "broken"))


@dataclass(frozen=True)
class Mine(Finetune):
    gamma: float = 0.5


def test_a_method_of_ones_own_is_checked_by_its_options(registered):
    checks.check_save_and_load(registered(Mine, "mine") + ":max_steps=20,gamma=3")
