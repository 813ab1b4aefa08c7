"""The package itself: what ``import subspan`` offers, and what it does without until it is asked."""

import subprocess
import sys

import pytest

import subspan


def test_the_estimator_is_imported_when_it_is_asked_for():
    """In a process of its own: here scikit-learn may be loaded already."""
    program = """
import sys, subspan
assert not {"sklearn", "scipy.stats", "scipy.optimize"} & sys.modules.keys()
assert {*subspan.__all__} <= {*dir(subspan)}
from subspan import *
assert IncrementalClassifier is subspan.IncrementalClassifier and "sklearn" in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="module 'subspan' has no attribute 'Classifier'"):
        subspan.Classifier  # noqa: B018
