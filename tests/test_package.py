"""The package itself: what ``import subspan`` offers, what it does without until it is asked, and its old names."""

import subprocess
import sys

import pytest

import subspan


def run(program: str) -> None:
    """In a process of its own: here PyTorch and scikit-learn may be loaded already."""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_names_are_imported_when_they_are_asked_for():
    run("""
import sys, subspan
assert dir(subspan) == sorted(subspan.__all__)
assert "teen" in subspan.list_methods("system") and "subspace" in subspan.list_methods()
assert subspan.load_features().base_count == 60
assert not {"torch", "sklearn", "scipy"} & sys.modules.keys()
assert issubclass(subspan.features.FeatureFileError, ValueError)
from subspan import *
assert IncrementalClassifier is subspan.IncrementalClassifier and "sklearn" in sys.modules
""")


def test_listing_learners_backbones_and_formats_imports_none_of_them():
    run("""
import sys
from subspan.learners.registry import list_methods, summary_of
assert all(summary_of(name) for kind in ("method", "system", "network-system") for name in list_methods(kind))
loaded = {name for name in sys.modules if name.startswith("subspan.learners.")}
assert loaded <= {"subspan.learners.registry", "subspan.learners.published"}, loaded
""")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("subspan", "create_method"),
        ("subspan", "FeatureSet"),
        ("subspan.methods", "create_method"),
        ("subspan.data", "read_images"),
        ("subspan.data.splits", "parse_split"),
        ("subspan.solve", "sgd"),
        ("subspan.metrics", "joint_gap"),
        ("subspan.protocols.multi_session", "MultiSession"),
        ("subspan.catalogue", "Catalogue"),
        ("subspan.catalogue", "TeachReport"),
        ("subspan.catalogue", "ExportReport"),
        ("subspan.systems", "System"),
        ("subspan.backbones", "create_backbone"),
    ],
)
def test_names_of_version_0_1_lead_to_the_new_ones_with_a_warning(module, name):
    run(f"""
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from {module} import {name}
assert any("{module}.{name} is subspan." in str(w.message) and w.category is DeprecationWarning for w in caught)
""")


def test_other_names_are_not_there():
    with pytest.raises(AttributeError, match="module 'subspan' has no attribute 'Classifier'"):
        subspan.Classifier  # noqa: B018
