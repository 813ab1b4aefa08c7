"""The registry: specifications, errors, and a method of one's own in one file."""

import re
import sys
import textwrap
from dataclasses import fields
from importlib import resources
from importlib.readers import MultiplexedPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

import subspan.learners
from subspan.engine.contract import Learner
from subspan.learners import registry
from subspan.learners.registry import create_method, list_methods, method_options, spec_of


def test_the_methods_of_the_paper_and_the_baselines_are_there():
    assert {"finetune", "subspace", "semantic", "linear_map", "imprint", "prototype"} <= set(list_methods())
    assert list_methods() == sorted(list_methods())


def test_the_defaults_are_the_released_codes():
    """PAPER-NOTES section 2."""
    for name, gamma, weight_decay in (
        ("finetune", 0.0, 5e-3),
        ("subspace", 1.0, 5e-4),
        ("semantic", 0.2, 5e-4),
        ("linear_map", 0.1, 5e-4),
    ):
        method = create_method(name)
        assert (method.gamma, method.weight_decay) == (gamma, weight_decay)
        assert (method.beta_base, method.beta_novel, method.old_penalty) == (0.2, 0.1, "norm")
        assert (method.learning_rate, method.momentum, method.max_steps) == (0.002, 0.9, 1000)
        assert (method.tolerance, method.patience, method.new_rows) == (1e-4, 10, "uniform")
    assert create_method("semantic").tau == 3.0


def test_options_as_text_and_as_keywords():
    assert create_method("semantic:tau=2,old_penalty=squared") == create_method(
        "semantic", tau=2.0, old_penalty="squared"
    )
    assert create_method("prototype: centred = false ,base=means").centred is False
    assert create_method("finetune:max_steps=7").max_steps == 7
    assert create_method("semantic:tau=2", tau=5).tau == 5.0, "keywords outrank the text"


SPECS = {
    "magic": "there is no method 'magic'; the methods are calibrated, finetune, imprint",
    "semantic:tua=3": "method 'semantic' has no option 'tua'; its options are gamma, beta_base",
    "semantic:tau": "an option reads name=value; got 'tau' in 'semantic:tau'",
    "semantic:tau=warm": "option 'tau' of method 'semantic' must be a number; got 'warm'",
    "finetune:max_steps=1.5": "option 'max_steps' of method 'finetune' must be a whole number; got '1.5'",
    "prototype:centred=yes": "option 'centred' of method 'prototype' must be true or false; got 'yes'",
    "subspace:basis=lu": "option 'basis' of method 'subspace' must be one of svd, qr; got 'lu'",
}


@pytest.mark.parametrize("spec", SPECS)
def test_a_wrong_specification_is_named(spec):
    with pytest.raises(ValueError, match=re.escape(SPECS[spec])):
        create_method(spec)


@given(st.floats(0, 1e6), st.integers(1, 10**6), st.sampled_from(["svd", "qr"]))
def test_a_specification_makes_the_same_method_again(gamma, max_steps, basis):
    method = create_method("subspace", gamma=gamma, max_steps=max_steps, basis=basis)
    assert create_method(spec_of(method)) == method


@pytest.mark.parametrize("name", list_methods())
def test_every_option_is_explained(name):
    assert spec_of(create_method(name)) == name
    for option, (kind, default, explanation) in method_options(name).items():
        assert kind
        assert len(explanation) > 10, option
        assert getattr(create_method(name), option) == default


def test_a_method_is_frozen():
    method = create_method("subspace")
    with pytest.raises(AttributeError):
        method.gamma = 3.0  # type: ignore[misc]
    assert all(f.default is not None for f in fields(method))


MINE = '''
"""Halves: novel rows are half their class mean."""

from dataclasses import dataclass

from subspan.learners.parts.rows import RowLearner, with_places
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class Halves(RowLearner):
    name = "halves"
    summary = "half the mean of the support"
    share: float = option(0.5, "how much of the mean a row is")

    def learn(self, state, session):
        rows = with_places(state.rows, session)
        rows[list(session.classes)] = self.share * session.means
        return state.after(rows=rows)
'''


@pytest.fixture
def a_file_of_ones_own(tmp_path, monkeypatch, forgotten_methods):
    """A file among the methods, for one test only."""
    (tmp_path / "halves.py").write_text(textwrap.dedent(MINE), "utf-8")
    files, both = resources.files, MultiplexedPath(resources.files("subspan.learners"), tmp_path)  # type: ignore[arg-type]

    class Beside:
        """The package, as if the file lay among its learners."""

        def joinpath(self, *folders):
            return both if folders == ("learners",) else files("subspan").joinpath(*folders)

    monkeypatch.setattr(resources, "files", lambda package: Beside() if package == "subspan" else files(package))
    monkeypatch.setattr(subspan.learners, "__path__", [*subspan.learners.__path__, str(tmp_path)])
    yield
    sys.modules.pop("subspan.learners.halves", None)


def test_a_file_is_all_a_method_needs(a_file_of_ones_own):
    from subspan.checks import check_method
    from subspan.classifier import IncrementalClassifier

    assert "halves" in list_methods()
    assert create_method("halves:share=0.25").share == 0.25
    model = IncrementalClassifier.from_weights([[1, 0], [0, 1]], "ab", method="halves:share=0.25")
    assert model.add_classes([[4.0, 8.0]], ["c"]).coef_[2].tolist() == [1.0, 2.0]
    check_method("halves")


def test_two_methods_cannot_share_a_name(forgotten_methods):
    class Other(Learner):
        name = "subspace"
        summary = ""

    with pytest.raises(ValueError, match="a method named 'subspace' is registered already"):
        registry.register(Other)
