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

from subspan import __version__
from subspan.cli import app
from subspan.features.feature_set import FeatureSet
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
    words = ["train", "--data", photographs, "--split", "folder", "--out", folder / "run", "--pack", folder, *TINY]
    succeed(*words, "--set", "image_size=24", "--set", "checkpoint_every=0")
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


def test_a_part_of_a_system_is_trained_on_the_features_of_a_run(
    photographs: Path, trained: Path, tmp_path: Path
) -> None:
    part = ["train", "--data", photographs, "--run", trained, "--device", "cpu", "--steps", "3", "--system"]
    told = succeed(*part, "cec:ways=2,queries=2", "--out", tmp_path / "cec.safetensors")
    assert "part of cec, trained on real features of 3 classes, 3 steps" in told.replace("\n", " ")
    made = TrainedPart.load(tmp_path / "cec.safetensors")
    assert (made.source, made.about["turned"]) == ("real", True)
    rows = FeatureSet.load(trained.with_name("run.safetensors")).base_weight
    assert made.belongs_to(torch.tensor(rows))


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
        (["pack", "--run", "r", "--data", "d", "--out", "f.npy"], "written as .safetensors or .npz; got 'f.npy'"),
    ):
        assert message in str(invoke(*words).exception), words
    assert "No such option: --statistics" in invoke(*train, "folder", "--statistics", "fused").output
