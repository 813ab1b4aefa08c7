"""The package itself: what ``import subspan`` offers, and what it does without until it is asked."""

import subprocess
import sys

import pytest

import subspan


def test_names_are_imported_when_they_are_asked_for():
    """In a process of its own: here PyTorch and scikit-learn may be loaded already."""
    program = """
import sys, subspan
assert not {"torch", "numpy"} & sys.modules.keys()
assert {*subspan.__all__} <= {*dir(subspan)}
assert subspan.FeatureSet and subspan.create_method("subspace") and "teen" in subspan.list_systems()
assert not {"sklearn", "scipy.stats", "scipy.optimize"} & sys.modules.keys()
from subspan import *
assert IncrementalClassifier is subspan.IncrementalClassifier and "sklearn" in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_whoever_creates_methods_finds_the_systems_too():
    program = "from subspan.learners import create_method; assert create_method('teen').name == 'teen'"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_modules_of_the_names_need_no_import_of_their_own():
    """As an error's full name invites to: ``except subspan.features.FeatureFileError``."""
    program = """
import subspan
assert {"features", "methods", "systems", "classifier"} <= {*dir(subspan)}
assert issubclass(subspan.features.FeatureFileError, ValueError)
assert subspan.learners.create_method is subspan.create_method and subspan.learners.published.list_systems is subspan.list_systems
assert subspan.classifier.IncrementalClassifier is subspan.IncrementalClassifier
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="module 'subspan' has no attribute 'Classifier'"):
        subspan.Classifier  # noqa: B018
