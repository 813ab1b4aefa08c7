"""The exported ONNX file: the catalogue's answers without Subspan."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import made_photographs as made
from subspan.catalogue import export
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.options import CatalogueOptions


@pytest.mark.parametrize("method", ["finetune", "prototype", "calibrated"])
def test_onnxruntime_gives_the_catalogues_probabilities(tmp_path: Path, backbone, method: str, monkeypatch):
    photographs = {name: made.photographs(name, 20) for name in ("red", "green", "blue")}
    options = CatalogueOptions(method=method)
    catalogue, _ = Catalogue.create(tmp_path / "c.subspan", photographs, options, backbone=backbone)
    catalogue.add("pink", made.photographs("pink", 5))
    file = tmp_path / "c.onnx"
    report = catalogue.export(file, made.photographs("green", 3, seed=4))
    assert (report.images, report.agreed, report.classes) == (3, 3, 4)
    assert report.difference < 1e-4

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    about = json.loads(onnx.load(file).metadata_props[0].value)
    assert about["preprocessing"] == {"pixels": made.PREPROCESSING.to_dict()}
    assert about["version"] == catalogue.version
    for count in (1, 7):  # any size of batch
        images = made.photographs("pink", count, seed=5)
        pixels = np.stack([made.PREPROCESSING.pixels(image) for image in images])
        probabilities, familiarities = session.run(None, {"pixels": pixels})
        answers = catalogue.predict(images, top=4, reject=0.2)
        for row, answer in zip(probabilities, answers, strict=True):
            by_name = dict(zip(about["classes"], row.tolist(), strict=True))
            assert by_name == {c.name: pytest.approx(c.probability, abs=1e-4) for c in answer.candidates}
        threshold = catalogue._snapshot.threshold(0.2)
        assert [one.rejected for one in answers] == (familiarities < threshold).tolist()

    if method == "prototype":  # a file that answers otherwise never takes the place of a good one
        good = file.read_bytes()
        monkeypatch.setattr(export, "TOLERANCE", -1.0)
        with pytest.raises(CatalogueError, match=r"differs from the catalogue.*it was not kept"):
            catalogue.export(file, made.photographs("red", 1))
        assert file.read_bytes() == good
        assert sorted(path.name for path in tmp_path.iterdir()) == ["c.onnx", "c.subspan"]


@pytest.mark.parametrize("opset", [11, 18, 22])  # older than torch writes, the same, newer
def test_a_backbone_that_is_an_onnx_file_becomes_a_part_of_the_whole(tmp_path: Path, opset: int):
    path = made.write_onnx(tmp_path / "tiny.onnx", opset=opset)
    photographs = {name: made.photographs(name, 10) for name in ("red", "green", "blue")}
    catalogue, _ = Catalogue.create(tmp_path / "c.subspan", photographs, CatalogueOptions(backbone=f"onnx:{path}"))
    report = catalogue.export(tmp_path / "c.onnx", photographs["red"])
    assert (report.agreed, report.inputs) == (10, {"pixels": ("n", 16, 16, 3)})
    path.unlink()  # the whole needs it no more
    session = onnxruntime.InferenceSession(str(tmp_path / "c.onnx"), providers=["CPUExecutionProvider"])
    for count in (1, 5):  # any size of batch
        images = made.photographs("green", count, seed=7)
        pixels = np.stack([catalogue.backbone.preprocessing.pixels(image) for image in images])
        probabilities, familiar = session.run(["probabilities", "familiarity"], {"pixels": pixels})
        wanted = catalogue._snapshot.familiarity(catalogue.backbone.features(images))
        np.testing.assert_allclose(familiar, wanted, rtol=1e-3)
        for row, answer in zip(probabilities, catalogue.predict(images, top=3), strict=True):
            found = dict(zip([entry.name for entry in catalogue.classes()], row.tolist(), strict=True))
            assert found == {c.name: pytest.approx(c.probability, abs=1e-4) for c in answer.candidates}


def test_what_cannot_be_joined_is_one_sentence(tmp_path: Path, monkeypatch):
    path = made.write_onnx(tmp_path / "tiny.onnx")
    photographs = {name: made.photographs(name, 5) for name in ("red", "blue")}
    catalogue, _ = Catalogue.create(tmp_path / "c.subspan", photographs, CatalogueOptions(backbone=f"onnx:{path}"))
    path.write_bytes(b"changed since it was opened")
    with pytest.raises(CatalogueError, match=r"cannot be joined with the head: \S") as caught:
        catalogue.export(tmp_path / "c.onnx", photographs["red"])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "c.onnx").exists()


@pytest.mark.parametrize("method", ["fecam", "ranpac:samples=10,width=50"])
def test_a_method_that_is_no_graph_of_its_own_is_named_and_has_a_map(tmp_path: Path, backbone, method: str):
    photographs = {name: made.photographs(name, 20) for name in ("red", "green", "blue")}
    catalogue, _ = Catalogue.create(
        tmp_path / "c.subspan", photographs, CatalogueOptions(method=method), backbone=backbone
    )
    catalogue.add("pink", made.photographs("pink", 5))
    assert [point.name for point in catalogue.weight_map().points] == ["blue", "green", "red", "pink"]
    with pytest.raises(CatalogueError, match=f"torch cannot write .*method '{method}.* as ONNX"):
        catalogue.export(tmp_path / "c.onnx", made.photographs("green", 3, seed=4))
    assert not (tmp_path / "c.onnx").exists()
