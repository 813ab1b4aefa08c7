"""Systems against what their released code predicted on made-up features, one by one (tests/data/README.md).

Scores agree to float32 as far as its rounding allows: the released RanPAC solves a matrix of 10^6 with lambda 0.01.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from subspan.classifier import IncrementalClassifier
from subspan.engine import sessions as engine
from subspan.engine.contract import Base
from subspan.learners.published.ranpac import Ranpac
from subspan.learners.registry import create_method

with np.load(Path(__file__).resolve().parents[2] / "data" / "released-systems.npz") as file:
    DATA = dict(file)
SESSIONS, BASE_COUNT = 3, 6


def check(learner, released, *, unit=1.0, within=1e-5, sessions=SESSIONS):
    """Scores and predictions after every session; features are given times ``unit``."""

    def given(name):
        return DATA[f"{name}_X"].astype(np.float64) * unit, DATA[f"{name}_y"]

    examples, labels = given("base")
    means = np.stack([examples[labels == c].mean(0) for c in range(BASE_COUNT)])
    base = Base(DATA["rows"].astype(np.float64), means, examples=examples, labels=labels)
    state = engine.start(learner, base)
    for t in range(sessions):
        if t:
            support, of = given(f"s0{t}")
            state = engine.learn(learner, state, engine.session_of(support, of, sorted(set(of.tolist()))))
        found = engine.scores(learner, state, given("test")[0])
        expected = DATA[f"{released}.scores{t}"]
        assert (found.argmax(1) == DATA[f"{released}.predictions{t}"]).all()
        np.testing.assert_allclose(found, expected, atol=within * np.abs(expected).max())


@pytest.mark.parametrize(
    ("spec", "released"),
    [
        ("fecam:form=released", "fecam"),
        ("calibrated-fecam:form=released,alpha=0.1", "calibrated"),
        ("teen", "teen"),
        ("teen:alpha=0.1", "teen-cifar"),
    ],
)
def test_predictions_are_those_of_the_released_code(spec, released):
    check(create_method(spec), released)


def test_ncm_predicts_the_base_session_as_the_helpers_of_teens_code():
    check(create_method("ncm"), "teen", sessions=1)


@dataclass(frozen=True)
class AsSeeded(Ranpac):
    """With the projection, the order of examples and the draws that the released code was given."""

    name = "ranpac"

    def order(self, count):
        return np.arange(count)

    def projection(self, like):
        return DATA["projection"].astype(like.dtype)

    def draw(self, mean, covariance, place):
        session, second = divmod(place - BASE_COUNT, 2)
        random = np.random.RandomState(100 + session + 1)
        if second:  # its draws follow those of the session's first class
            random.standard_normal((800, len(mean)))
        return random.multivariate_normal(mean, covariance, 800)


def test_ranpac_predicts_as_its_released_code():
    check(AsSeeded(form="released"), "ranpac", unit=1 / 30, within=0.02)


def test_calibrated_ranpac_predicts_as_its_released_code():
    check(AsSeeded(form="calibrated", alpha=0.1), "calibrated-ranpac", unit=1 / 30, within=2e-4)


def test_the_estimator_starts_from_examples():
    X, y = DATA["base_X"].astype(np.float64), DATA["base_y"]
    for t in (1, 2):
        model = IncrementalClassifier(method="fecam:form=released").fit(X, y)
        for s in range(1, t + 1):
            model.add_classes(DATA[f"s0{s}_X"].astype(np.float64), DATA[f"s0{s}_y"])
        assert (model.predict(DATA["test_X"].astype(np.float64)) == DATA[f"fecam.predictions{t}"]).all()
