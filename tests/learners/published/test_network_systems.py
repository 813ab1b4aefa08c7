"""What all systems that move the network have in common: where they come from, what they refuse, what they leave."""

from pathlib import Path

import numpy as np
import pytest
from made_up_images import CPU, NOVEL, WAYS, World
from typer.testing import CliRunner

from subspan import IncrementalClassifier
from subspan.cli import app
from subspan.cli.parts.facts import command_line, version
from subspan.experiments.episodes import digest_of_items
from subspan.experiments.multi_session import RANDOM, MultiSession
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.features.feature_set import FeatureSet
from subspan.learners.published.xtarnet import XtarNet
from subspan.learners.registry import create_method, list_methods, list_network_systems, list_systems, method_class
from subspan.paper.network_systems import store_result
from subspan.paper.single_session import PROTOCOL as EPISODES
from subspan.paper.stored_results import StoredResult

ALL = list_network_systems()
SESSIONS = [name for name in ALL if method_class(name).protocol == "multi-session"]  # type: ignore[attr-defined]
QUICK = {"topic": "topic:nodes=20,gas_passes=1,epochs=2", "idlvq-full": "idlvq-full:epochs=2"}
FAST = {"topic": [], "idlvq-full": ["--steps", 3, "--batch", 8]}


def test_a_copy_without_history_is_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBSPAN_COMMIT", "abc1234")
    assert version().endswith(", commit abc1234")


def test_they_are_listed_apart() -> None:
    assert {"topic", "idlvq-full", "xtarnet"} <= set(ALL)
    assert not set(ALL) & (set(list_systems()) | set(list_methods()))


@pytest.mark.parametrize("name", SESSIONS)
def test_features_are_not_enough(name: str) -> None:
    e = np.eye(3)
    arrays = {"base_weight": e[:2], "base_test": e[:2, None], "novel_test": e[2:, None]}
    features = FeatureSet.from_arrays({**arrays, "novel_support": e[2:, None, None]})
    with pytest.raises(ValueError, match=f"subspan train --system {name} --run RUN --data IMAGES --out FILE.json"):
        MultiSession(ways=1, shots=1).run(features, create_method(name), memory=False)


@pytest.mark.parametrize("name", ALL)
def test_a_model_of_features_names_the_command_that_runs_them(name: str) -> None:
    with pytest.raises(ValueError, match=f"features are not enough.*: subspan train --system {name} --run RUN --data"):
        IncrementalClassifier(method=name).fit(np.eye(4), np.arange(4) % 2)


@pytest.fixture(scope="module")
def folder(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up images as a folder of classes."""
    from PIL import Image

    place = tmp_path_factory.mktemp("images")
    for pixels, file in zip(world.images.images, world.images.files, strict=True):
        path = place / file
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(pixels).save(path)
    return place


def subspan_train(*words: object):
    return CliRunner().invoke(app, ["train", *map(str, words)], env={"COLUMNS": "200"})


@pytest.fixture(scope="module")
def base(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on folder:1: seven base classes, five novel ones in one session."""
    place = tmp_path_factory.mktemp("base") / "run"
    small = ["--width", 0.04, "--crop-size", 24, "--padding", 2, "--epochs", 1, "--cuts", "", "--batch-size", 20]
    quiet = ["--no-progress", "--device", "cpu", "--image-size", 24]
    trained = subspan_train("--data", folder, "--split", "folder:1", "--out", place, *small, *quiet)
    assert trained.exit_code == 0, trained.output
    return place


@pytest.mark.parametrize("name", SESSIONS)
def test_one_command_stores_the_result_of_the_sessions(name: str, tmp_path: Path, folder: Path, base: Path) -> None:
    out = tmp_path / "result.json"
    words = ["--run", base, "--data", folder, "--out", out, "--device", "cpu", *FAST[name]]
    done = subspan_train("--system", QUICK[name], *words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert f"{QUICK[name]} on folder:1" in done.output
    stored = StoredResult.load(out)
    assert isinstance(stored.result, MethodResult)
    assert (stored.system, stored.result.method, stored.split) == (name, QUICK[name], "folder:1")
    assert stored.result.memory is method_class(name).uses_memory  # type: ignore[attr-defined]
    assert stored.about["options"].items() >= {"epochs": 2}.items()
    assert {"seed", "seconds", "device", "version", "command", "base_session", "notes"} <= set(stored.about)
    assert len(stored.split_digest) == 64
    assert out.stat().st_size < 20_000
    assert stored.result.protocol == RANDOM.digest  # the draw is that of `subspan reproduce`
    assert not list(tmp_path.glob("*.checkpoint"))


def test_one_command_stores_the_result_of_the_episodes(tmp_path: Path, folder: Path, base: Path) -> None:
    out = tmp_path / "new folder" / "result.json"
    words = ["--run", base, "--data", folder, "--out", out, "--device", "cpu", "--steps", 3]
    done = subspan_train("--system", "xtarnet:shots=1", *words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert "xtarnet:shots=1 on folder:1, 1 shots" in done.output
    stored = StoredResult.load(out)
    assert isinstance(stored.result, EpisodeResult)
    assert len(stored.result.joint) == EPISODES.count
    assert stored.result.protocol == f"{EPISODES.digest}, first 1 of 5 shots"  # as `subspan reproduce` has it
    assert stored.about["training"]["steps"] == 3
    assert out.stat().st_size < 200_000


def test_episodes_that_cannot_be_drawn_are_refused_before_training(tmp_path: Path, world: World) -> None:
    system = XtarNet()  # 12,000 steps
    with pytest.raises(ValueError, match="5 ways asked for, but there are only 4 novel classes"):
        store_result(
            system, {}, 0, world.load(), world.images, world.split, tmp_path / "x.json", CPU, resume=False, made={}
        )


def test_the_items_are_those_of_the_feature_file(world: World) -> None:
    assert len(world.maps().items.novel_support) == 10 * NOVEL
    assert len(digest_of_items(world.maps().items)) == 12
    assert len(world.split.sessions) == NOVEL // WAYS


@pytest.mark.parametrize("name", ALL)
def test_what_is_missing_is_said(name: str, tmp_path: Path) -> None:
    refused = subspan_train("--system", name, "--out", tmp_path / "x.json")
    assert f"system '{name}' moves the network: it needs --run, --data and --out FILE.json" in str(refused.exception)


def test_settings_of_a_training_that_there_is_not_are_refused(tmp_path: Path, folder: Path, base: Path) -> None:
    words = ["--run", base, "--data", folder, "--device", "cpu"]
    refused = subspan_train("--system", "topic", *words, "--steps", 5, "--out", tmp_path / "x.json")
    assert "'topic' trains nothing on the base classes; it takes no --steps" in str(refused.exception)
    refused = subspan_train("--system", "topic", *words, "--out", tmp_path / "x.safetensors")
    assert "its result is stored as .json" in str(refused.exception)


def test_the_stored_command_names_no_folder_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["subspan", "train", "--system", "topic", "--run", "/data/my runs/random-1"])
    assert command_line(folders=False) == "subspan train --system topic --run random-1"
    assert command_line() == "subspan train --system topic --run '/data/my runs/random-1'"
