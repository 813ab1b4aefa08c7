"""Stores that earlier versions wrote still open, answer as they did then, go on learning and can go back.

Those of 0.2.0-dev are from before the arrays of a model became NumPy's.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.classifier import IncrementalClassifier

FOLDERS = {version: Path(__file__).parent / f"stores-{version}" for version in ("0.1.0", "0.2.0-dev")}
TOLD = {version: json.loads((folder / "answers.json").read_text("utf-8")) for version, folder in FOLDERS.items()}
CATALOGUES = [(version, name) for version, told in TOLD.items() for name in told["catalogues"]]


@pytest.mark.parametrize(("version", "name"), CATALOGUES)
def test_a_catalogue_answers_as_it_did(version, name, backbone):
    told = TOLD[version]["catalogues"][name]
    catalogue = Catalogue.open(FOLDERS[version] / f"{name}.subspan", backbone=backbone)
    entries = catalogue.classes()
    assert [entry.name for entry in entries] == told["classes"]
    assert [entry.examples for entry in entries] == told["examples"]
    assert [entry.kept for entry in entries] == told["kept"]
    assert [entry.kind for entry in catalogue.sessions()] == told["kinds"]
    found = catalogue.predict_features(np.asarray(TOLD[version]["features"], np.float32), top=len(entries))
    by_class = [{one.name: one.probability for one in row.candidates} for row in found]
    probabilities = [[row[name] for name in told["classes"]] for row in by_class]
    np.testing.assert_allclose(probabilities, told["probabilities"], atol=1e-4)


@pytest.mark.parametrize(("version", "name"), CATALOGUES)
def test_a_catalogue_learns_on_and_keeps_its_method(version, name, backbone, tmp_path):
    place = copied(FOLDERS[version] / f"{name}.subspan", tmp_path)
    catalogue = Catalogue.open(place, backbone=backbone)
    before = [one.name for one in catalogue.predict(made.photographs("red", 10, seed=5))]
    catalogue.add("grey", made.photographs("grey", 5))
    assert [entry.name for entry in catalogue.classes()][-1] == "grey"
    model = IncrementalClassifier.load(place)
    assert model.method_ == TOLD[version]["catalogues"][name]["method"]
    for _ in range(2):
        catalogue.undo()
    assert [one.name for one in catalogue.predict(made.photographs("red", 10, seed=5))] == before


@pytest.mark.parametrize("version", TOLD)
def test_a_classifier_answers_as_it_did_and_can_go_back(version, tmp_path):
    told = TOLD[version]["classifier"]
    queries = np.asarray(told["queries"])
    model = IncrementalClassifier.load(copied(FOLDERS[version] / "finetune.subspan", tmp_path))
    assert model.classes_.tolist() == told["classes"]
    np.testing.assert_allclose(model.predict_proba(queries), told["probabilities"], atol=1e-5)
    np.testing.assert_allclose(model.undo().predict_proba(queries), told["undone"], atol=1e-5)


def copied(store: Path, folder: Path) -> Path:
    """The store in a folder where it may be written."""
    return Path(shutil.copytree(store, folder / store.name))
