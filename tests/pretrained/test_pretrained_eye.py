"""Several views and several networks as one: features as by hand, names, digests, the catalogue that keeps them."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.options import CatalogueOptions
from subspan.pretrained.backbone import BackboneError, Preprocessing, prepare
from subspan.pretrained.eye import VIEWS, view_of
from subspan.pretrained.registry import EYES, is_packaged, load_backbone

TINY = "module:made_photographs.with_preprocessing"


def scaled(pixels: np.ndarray, width: int, height: int) -> PIL.Image.Image:
    return PIL.Image.fromarray(pixels).resize((width, height), PIL.Image.Resampling.BICUBIC)


def test_views_are_the_middle_the_whole_made_square_and_the_middle_closer():
    pixels = np.random.default_rng(0).integers(0, 255, (300, 300, 3), dtype=np.uint8)
    own = Preprocessing(size=112, resize=128)
    shown = dict(zip(VIEWS, prepare([view_of(own, name) for name in VIEWS], pixels), strict=True))
    expected = {
        "crop": scaled(pixels, 128, 128).crop((8, 8, 120, 120)),
        "squash": scaled(pixels, 112, 112),
        "tight": scaled(pixels, 160, 160).crop((24, 24, 136, 136)),
    }
    for name, image in expected.items():
        np.testing.assert_array_equal(shown[name], image)
        np.testing.assert_array_equal(shown[f"{name}-mirrored"], np.asarray(image)[:, ::-1])
    wide = prepare([view_of(own, "squash")], pixels[:150])[0]
    np.testing.assert_array_equal(wide, scaled(pixels[:150], 112, 112))


def test_features_are_means_over_views_at_length_one_added_in_other_orders():
    images = made.photographs("green", 11)
    found = load_backbone(f"{TINY},crop,squash-mirrored+efficientnet-lite0,tight")
    parts = []
    for name, views in ((TINY, ("crop", "squash-mirrored")), ("efficientnet-lite0", ("tight",))):
        network = load_backbone(name)
        seen = []
        for view in views:
            pixels = np.stack([view_of(network.preprocessing, view).pixels(image) for image in images])
            seen.append(network.forward(pixels).astype(np.float64))
        mean = np.mean(seen, axis=0)
        parts.append(mean / np.linalg.norm(mean, axis=1)[:, None])
    expected = np.zeros((11, 1280))
    for i in range(made.WIDTH):
        expected[:, i] += parts[0][:, i]
    for i in range(1280):  # the second backwards, one further
        expected[:, (1280 - i) % 1280] += parts[1][:, i]
    assert found.dim == 1280
    np.testing.assert_allclose(found.features(images), expected, rtol=1e-4, atol=1e-6)


def test_a_photograph_is_opened_once_for_all_views(monkeypatch):
    opened, real = [], PIL.Image.open
    monkeypatch.setattr(PIL.Image, "open", lambda *given, **how: opened.append(1) or real(*given, **how))
    backbone = load_backbone(f"{TINY},{','.join(VIEWS)}")
    backbone.features([made.encoded(image) for image in made.photographs("red", 3)])
    assert len(opened) == 3


def test_the_digest_is_of_networks_and_of_views():
    names = [TINY, f"{TINY},crop", f"{TINY},squash", f"{TINY},squash,crop", f"{TINY},crop+{TINY},crop"]
    digests = {name: load_backbone(name).digest for name in names}
    assert len(set(digests.values())) == len(names)
    for name, digest in digests.items():
        assert load_backbone(name, digest).digest == digest
        for other in set(names) - {name}:
            with pytest.raises(BackboneError, match=r"other weights|of \d networks?, and this model of"):
                load_backbone(other, digest)


def test_a_file_may_have_a_plus_or_a_comma_in_its_name(tmp_path: Path):
    files = [made.write_onnx(tmp_path / name) for name in ("a+b.onnx", "crop,c.onnx", "d,e+efficientnet.onnx")]
    name = "+".join([*(f"onnx:{file}" for file in files), "efficientnet-lite0,crop"])
    found = load_backbone(name)
    assert found.name == name
    assert len(found.views) == 4


def test_a_joined_network_is_packaged_where_all_of_it_is():
    assert all(map(is_packaged, EYES))
    assert load_backbone("fast+efficientnet-lite0").name == f"{EYES['fast']}+efficientnet-lite0"
    assert not is_packaged("efficientnet-lite0,crop+timm:resnet18@gift/w.pth")


def test_a_catalogue_keeps_its_views(tmp_path: Path):
    photographs = {name: made.photographs(name, 10) for name in made.BASE}
    name = f"{TINY},crop,squash+{TINY},tight-mirrored"
    made_so, _ = Catalogue.create(tmp_path / "c.subspan", photographs, CatalogueOptions(backbone=name))
    queries = made.photographs("red", 5, seed=9)
    opened = Catalogue.open(tmp_path / "c.subspan", trust=True)
    assert opened.predict(queries) == made_so.predict(queries)
    assert opened.backbone.name == name
    with pytest.raises(CatalogueError, match="--trust"):
        Catalogue.open(tmp_path / "c.subspan").predict(queries)
    with pytest.raises(BackboneError, match="other weights"):
        Catalogue.open(tmp_path / "c.subspan", name.replace("tight", "crop")).predict(queries)
