"""Stores that version 0.1.0 wrote still open, answer as they did then, go on learning and can go back."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.classifier import IncrementalClassifier

STORES = Path(__file__).parent / "stores-0.1.0"
TOLD = json.loads((STORES / "answers.json").read_text("utf-8"))
FEATURES = np.asarray(TOLD["features"], np.float32)


@pytest.mark.parametrize("name", TOLD["catalogues"])
def test_a_catalogue_answers_as_it_did(name, backbone):
    told = TOLD["catalogues"][name]
    catalogue = Catalogue.open(STORES / f"{name}.subspan", backbone=backbone)
    entries = catalogue.classes()
    assert [entry.name for entry in entries] == told["classes"]
    assert [entry.examples for entry in entries] == told["examples"]
    assert [entry.kept for entry in entries] == told["kept"]
    assert [entry.kind for entry in catalogue.sessions()] == told["kinds"]
    found = catalogue.predict_features(FEATURES, top=len(entries))
    by_class = [{one.name: one.probability for one in row.candidates} for row in found]
    probabilities = [[row[name] for name in told["classes"]] for row in by_class]
    np.testing.assert_allclose(probabilities, told["probabilities"], atol=1e-4)


@pytest.mark.parametrize("name", TOLD["catalogues"])
def test_a_catalogue_learns_on_and_keeps_its_method(name, backbone, tmp_path):
    place = copied(STORES / f"{name}.subspan", tmp_path)
    catalogue = Catalogue.open(place, backbone=backbone)
    before = [one.name for one in catalogue.predict(made.photographs("red", 10, seed=5))]
    catalogue.add("grey", made.photographs("grey", 5))
    assert [entry.name for entry in catalogue.classes()][-1] == "grey"
    model = IncrementalClassifier.load(place)
    assert model.method_ == TOLD["catalogues"][name]["method"]
    for _ in range(2):
        catalogue.undo()
    assert [one.name for one in catalogue.predict(made.photographs("red", 10, seed=5))] == before


def test_a_classifier_answers_as_it_did_and_can_go_back(tmp_path):
    told = TOLD["classifier"]
    queries = np.asarray(told["queries"])
    model = IncrementalClassifier.load(copied(STORES / "finetune.subspan", tmp_path))
    assert model.classes_.tolist() == told["classes"]
    np.testing.assert_allclose(model.predict_proba(queries), told["probabilities"], atol=1e-5)
    np.testing.assert_allclose(model.undo().predict_proba(queries), told["undone"], atol=1e-5)


def copied(store: Path, folder: Path) -> Path:
    """The store in a folder where it may be written."""
    return Path(shutil.copytree(store, folder / store.name))
