"""The commands from photographs to a feature file."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

import made_photographs as made
from subspan import __version__
from subspan.cli import app
from subspan.features.feature_set import FeatureSet
from subspan.images.read import read_images
from subspan.images.splits.parse import parse_split
from subspan.learners.training.trained_part import TrainedPart

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, generator = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    for name in ("ant", "bee", "cat", "dog", "elk"):
        (folder / name).mkdir()
        colour = generator.integers(30, 225, 3)
        for i in range(20):
            pixels = np.clip(colour + generator.normal(0, 20, (24, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.png")
    return folder


TINY = ["--device", "cpu", "--backbone", "resnet12-tian", "--epochs", "1", "--batch-size", "8"]
TINY += [w for one in ("width=0.04", "crop_size=20", "padding=2", "cuts=", "progress=false") for w in ("--set", one)]


@pytest.fixture(scope="module")
def trained(photographs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on images of 24 pixels, packed into ``run.safetensors`` beside it."""
    folder = tmp_path_factory.mktemp("runs")
    words = ["train", "--data", photographs, "--split", "folder", "--out", folder / "run", *TINY]
    succeed(*words, "--set", "image_size=24", "--set", "checkpoint_every=0")
    succeed("pack", "--run", folder / "run", "--data", photographs, "--out", folder / "run.safetensors")
    return folder / "run"


def invoke(*words: object) -> Result:
    return RUNNER.invoke(app, [str(word) for word in words], env={"COLUMNS": "200", "NO_COLOR": "1"})


def succeed(*words: object) -> str:
    result = invoke(*words)
    assert result.exit_code == 0, (words, result.output, result.exception)
    return result.output


def test_from_photographs_to_a_feature_file(photographs: Path, trained: Path, tmp_path: Path) -> None:
    common = ["--data", photographs, "--run", trained, "--device", "cpu"]  # in the size of the run's images
    out = tmp_path / "features.safetensors"
    told = succeed("extract", *common, "--support-images", "5")
    assert "42 training images, 12 base and 8 novel test images and 2x5x5 support copies in " in told
    succeed("pack", *common, "--support-images", "5", "--out", out, "--on-disk", "float32")
    features = FeatureSet.load(out)
    assert set(features.base_names or ()) | set(features.novel_names or ()) == {"ant", "bee", "cat", "dog", "elk"}
    assert FeatureSet.load(trained.with_name("run.safetensors")).base_count == features.base_count == 3
    assert features.base_covariance is not None
    assert features.meta["image_size"] == 24
    recorded = json.loads((trained / "run.json").read_text())["results"]
    assert features.meta["session0_validation"] == recorded["validation"]
    assert features.meta["version"].startswith(__version__)
    succeed("pack", *common, "--out", tmp_path / "f.npz", "--no-covariance")
    packed = FeatureSet.load(tmp_path / "f.npz")
    assert packed.base_covariance is None
    np.testing.assert_allclose(packed.base_weight, features.base_weight, rtol=2.0**-11, atol=1e-7)  # rows in float16


@pytest.mark.parametrize("copies", [1, 2])
def test_from_any_backbone_to_a_table(tmp_path: Path, copies: int) -> None:
    """Two commands; every array against the backbone itself, on the files that the split names."""
    data, out = made.write_folders(tmp_path / "photographs", dict.fromkeys(made.COLOURS, 20)), tmp_path / "f.npz"
    backbone = "module:made_photographs.with_preprocessing"
    words = ["pack", "--backbone", backbone, "--data", data, "--split", "folder", "--copies", copies]
    told = succeed(*words, "--support-images", "5", "--out", out, "--on-disk", "float32")
    features = FeatureSet.load(out)
    assert f"session 0 at {features.meta['session0_test']:.2f} %" in told.replace("\n", " ")
    images = read_images(data, size=made.SIDE)
    split = parse_split("folder").make(images)
    unit = features.meta["unit"]

    def seen(rows: np.ndarray) -> np.ndarray:
        return made.tiny_backbone().features(list(images.images[rows])) / unit

    first = seen(split.base_train[images.labels[split.base_train] == split.base_classes[0]])
    np.testing.assert_allclose(features.base_mean[0], first.mean(0), rtol=1e-4)
    novel = np.concatenate([np.random.default_rng(0).permutation(rows) for rows in split.novel_test])
    np.testing.assert_allclose(np.sort(features.novel_test, axis=0), np.sort(seen(novel), axis=0), rtol=1e-3, atol=1e-4)
    assert features.novel_support.shape == (5 * len(split.novel_classes), copies, made.WIDTH)
    support = seen(np.concatenate([pool[:5] for pool in split.novel_support_pool]))
    copied, own = (
        x.reshape(len(split.novel_classes), -1, made.WIDTH).mean(1) for x in (features.novel_support, support)
    )
    apart = np.linalg.norm(copied[:, None] - own, axis=2)
    assert apart.argmin(1).tolist() == [*range(len(own))], "copies are of these images"
    assert features.base_covariance is not None
    answers = (features.base_test @ features.base_weight.T + features.base_bias).argmax(1)
    assert features.meta["session0_test"] == pytest.approx(100 * (answers == features.base_test_labels).mean())
    assert features.meta["backbone"]["digest"] == made.tiny_backbone().digest
    assert "posterior" in succeed("bench", out, "--method", "posterior", "--method", "prototype", "--draws", "2")


def test_a_part_of_a_system_is_trained_on_the_features_of_a_run(
    photographs: Path, trained: Path, tmp_path: Path
) -> None:
    part = ["train", "--data", photographs, "--run", trained, "--device", "cpu", "--steps", "3", "--system"]
    told = succeed(*part, "cec:ways=2,queries=2", "--out", tmp_path / "cec.safetensors")
    assert "part of cec, trained on real features of 3 classes, 3 steps" in told.replace("\n", " ")
    part = TrainedPart.load(tmp_path / "cec.safetensors")
    assert (part.source, part.about["turned"]) == ("real", True)
    rows = FeatureSet.load(trained.with_name("run.safetensors")).base_weight
    assert part.belongs_to(torch.tensor(rows))


def test_the_command_tells_what_each_member_came_to(photographs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = ["train", "--data", photographs, "--split", "folder", "--out", folder, *TINY, "--members", "2"]
    for more in ([], ["--resume"]):
        told = succeed(*words, "--set", "varied=jitter=0.4/0", *more)
        for member, jitter in enumerate((0.4, 0.0), start=1):
            own = json.loads((folder / f"member-{member}" / "run.json").read_text())
            assert own["recipe"]["jitter"] == jitter
            validation, test = own["results"]["validation"], own["results"]["test"]
            line = f"  member-{member}: validation {validation:.2f} %, test {test:.2f} %, jitter {jitter}"
            assert line in told.splitlines()


def test_a_run_takes_its_own_images_in_a_size_it_knows(photographs: Path, trained: Path, tmp_path: Path) -> None:
    other = shutil.copytree(photographs, tmp_path / "other")
    shutil.copytree(photographs / "ant", other / "fox")
    run, file, part = ["--run", trained, "--device", "cpu"], tmp_path / "f.safetensors", tmp_path / "p.safetensors"
    theirs = "the run was trained on split 'folder"
    for words, message in (
        (["extract", "--data", other, "--support-images", "5"], theirs),
        (["pack", "--data", other, "--support-images", "5", "--out", file], theirs),
        (["train", "--system", "lwof", "--data", other, "--out", part], theirs),
        (["train", "--system", "topic", "--data", other, "--out", tmp_path / "t.json"], theirs),
        (["pack", "--data", photographs, "--image-size", "12", "--out", file], "images of 12 pixels are smaller than"),
        (["pack", "--data", photographs, "--base-test", "-5", "--out", file], "base_test must be at least 0; got -5"),
    ):
        assert message in str(invoke(*words, *run).exception), words
    assert [path.name for path in tmp_path.glob("*.*")] == []


def test_wrong_words_are_refused_before_images_are_read(tmp_path: Path) -> None:
    train = ["train", "--data", tmp_path / "missing", "--split"]
    for words, message in (
        ([*train, "nosuch"], "split 'nosuch' does not exist; there are random:SEED, fixed"),
        ([*train, "random:1:foo"], "folder, random:SEED:pooled and random:SEED:validation"),
        ([*train, "folder", "--recipe", "weak"], "unknown recipe 'weak'"),
        ([*train, "folder", "--device", "cuda:99"], "cuda:99"),
        ([*train, "folder", "--device", "cpu"], "there is nothing at"),
        ([*train, "folder", "--image-size", "80"], "images of 80 pixels are smaller than the crops of 84"),
        (["pack", "--run", "r", "--split", "folder", "--data", "d", "--out", "f.npz"], "--backbone NAME and --split"),
        (["pack", "--backbone", "b", "--data", "d", "--out", "f.npz"], "or of --backbone NAME and --split"),
        (["pack", "--run", "r", "--data", "d", "--out", "f.npy"], "written as .safetensors or .npz; got 'f.npy'"),
    ):
        assert message in str(invoke(*words).exception), words
    assert "No such option: --statistics" in invoke(*train, "folder", "--statistics", "fused").output
