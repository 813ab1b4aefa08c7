"""Systems are registered like methods and listed apart; the command line shows and runs them."""

import re
from typing import Any

import pytest
from typer.testing import CliRunner

from subspan import IncrementalClassifier
from subspan.cli import app
from subspan.cli import bench as bench_command
from subspan.learners.parts.system import System
from subspan.learners.published import MARKS
from subspan.learners.registry import (
    create_method,
    list_methods,
    list_network_systems,
    list_systems,
    method_class,
    method_options,
    spec_of,
)


def test_systems_and_methods_are_listed_apart():
    assert {"ncm", "teen", "alice", "fecam", "calibrated-fecam", "ranpac"} <= set(list_systems())
    assert not set(list_systems()) & set(list_methods())


@pytest.mark.parametrize("name", [*list_systems(), *list_network_systems()])
def test_every_system_says_where_it_comes_from(name):
    system = method_class(name)
    assert issubclass(system, System)
    assert re.search(r"\d{4}", system.reference), "a year"
    assert re.match("|".join(MARKS), system.marks), "how far it was checked"
    for part in ("Reference:", "Setting:", "Departures [ours]:"):
        assert part in (system.__doc__ or ""), part
    assert spec_of(create_method(name)) == name
    for option, (_, _, explanation) in method_options(name).items():
        assert len(explanation) > 10, option


def test_the_published_values_are_the_defaults():
    assert (create_method("teen").tau, create_method("teen").alpha) == (16.0, 0.5)  # type: ignore[attr-defined]
    assert create_method("alice").images == 5  # type: ignore[attr-defined]
    calibrated: Any = create_method("calibrated-fecam")
    assert (calibrated.tukey, calibrated.tau, calibrated.alpha, calibrated.beta) == (0.5, 16.0, 0.25, 1.0)
    assert create_method("ranpac").beta == 0.5  # type: ignore[attr-defined]


def test_an_unknown_name_is_answered_with_methods_and_systems():
    with pytest.raises(ValueError, match=r"the methods are calibrated, .*, the systems alice, .*teen"):
        create_method("tean")


def test_a_system_is_an_estimators_method():
    model = IncrementalClassifier.from_weights(
        [[1, 0, 0], [0, 1, 0]], "ab", means=[[2, 0, 0], [0, 2, 0]], method="teen"
    )
    model.add_classes([[0.0, 0.0, 3.0]], ["c"])
    assert model.predict([[0.1, 0.0, 1.0], [1.0, 0.2, 0.0]]).tolist() == ["c", "a"]


@pytest.fixture(scope="module")
def subspan():
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "600"})


def test_the_command_lists_and_explains(subspan):
    listed = subspan("methods").output
    for name in [*list_systems(), *list_network_systems()]:
        assert name in listed
        assert method_class(name).summary in listed
        assert method_class(name).reference in listed  # type: ignore[attr-defined]
    assert "Marks: C: read in the authors' released code" in listed
    assert subspan("systems").output == listed, "the older name of the same command"
    explained = subspan("methods", "teen").output
    assert "a_b = softmax_b(tau p^_k . p^_b)" in explained
    assert "share of similar base prototypes in a novel one" in explained


def test_bench_runs_no_system_unless_asked():
    assert set(bench_command._known()) == set(list_methods())


def test_bench_runs_a_system(subspan):
    done = subspan("bench", "--method", "teen:alpha=0.3", "--no-memory", "--draws", 1, "--workers", 1)
    assert done.exit_code == 0, done.output
    assert "teen:alpha=0.3" in done.output
