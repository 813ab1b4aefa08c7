"""Whole trainings of tiny networks: they learn, and a killed run ends where an uninterrupted one does."""

import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from colour_classes import IMAGES, LEARNS, QUICK, assert_same, colour_job, run, tiny_recipe, weights

from subspan.backbones.checkpoint import read_tensors, write_tensors
from subspan.train import run as training_run
from subspan.train.parts import step
from subspan.train.run import load_run
from subspan.train.trainer import Outcome, Runtime, train
from waiting import wait_until

WORKER = Path(__file__).with_name("train_worker.py")
Copied = Callable[[Path | Outcome], Path]


def log_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "log.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_network_learns_colours_and_leaves_records(trained: Outcome) -> None:
    assert trained.results["test"] >= 90
    record = json.loads((trained.job.folder / "run.json").read_text())
    assert record["results"] == trained.results
    rows = log_of(trained.job.folder)
    assert [int(row["epoch"]) for row in rows] == list(range(8))
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert [float(row["rate"]) for row in rows] == pytest.approx([0.05] * 6 + [0.005] * 2)
    assert [bool(row["validation"]) for row in rows] == [False, True] * 3 + [False, False]


def test_a_trained_network_comes_back(trained: Outcome, joined: Outcome, tmp_path: Path) -> None:
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for outcome, changes in ((trained, LEARNS), (joined, {"head": "cosine", "members": 2, "kept_features": 10})):
        network, settings = load_run(outcome.job.folder)
        torch.testing.assert_close(network(images), outcome.network.eval()(images))
        assert settings.recipe == tiny_recipe(**changes)
    with pytest.raises(FileNotFoundError, match="no trained weights at"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"cutmix": 0.6, "se": True, "head": "cosine", "schedule": "cosine", "precision": "bf16"},
        {"cutmix": 0.6, "resized_share": 0.5, "pool": "blurred", "dropblock": "full"},
        {"backbone": "resnet18-he", "head": "euclidean", "optimiser": "muon", "kernel_rate": 0.02, "early_size": 16},
    ],
    ids=["cosine", "boxes", "he"],
)
def test_other_recipes_run(tmp_path: Path, changes: dict[str, object]) -> None:
    outcome = run(tmp_path, **changes)
    assert 0 <= outcome.results["test"] <= 100
    assert all(torch.isfinite(value.float()).all() for value in weights(tmp_path).values())


def test_images_grow_after_the_early_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    whole = step.TrainStep._body
    monkeypatch.setattr(step.TrainStep, "_body", lambda self, size: seen.append(size) or whole(self, size))
    outcome = run(tmp_path, **{**LEARNS, "epochs": 12, "cuts": (9,)}, early_size=16)
    assert seen == [16] * 8 * 6 + [32] * 4 * 6  # two thirds of the epochs
    assert outcome.results["test"] >= 90


def test_the_compiler_knows_what_it_is_told() -> None:
    step._compiled(torch.sin)  # raises on an option that it does not know


def test_a_step_that_cannot_be_compiled_or_captured_runs_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: Path
) -> None:
    def fail(part: object) -> None:
        raise RuntimeError("no compiler")

    for execution, compiled, why in (("compiled", fail, "no compiler"), ("graph", lambda part: part, "CUDA")):
        monkeypatch.setattr(step, "_compiled", compiled)
        with pytest.warns(RuntimeWarning, match=rf"execution {execution} failed, the step runs eagerly: .*{why}"):
            outcome = run(tmp_path / execution, dataclasses.replace(QUICK, execution=execution), epochs=3)
        assert outcome.results["execution"] == "eager"
        assert_same(tmp_path / execution, pair / "a")


def test_networks_trained_together_equal_those_trained_alone(tmp_path: Path, pair: Path) -> None:
    run(tmp_path / "alone", seed=2, epochs=3)
    assert_same(pair / "b", tmp_path / "alone")
    assert not torch.equal(weights(pair / "a")["head.weight"], weights(pair / "b")["head.weight"])


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"optimiser": "muon", "early_size": 16}], ids=["sgd", "muon, small"])
def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path, more: dict[str, Any]) -> None:
    words = ("epochs=16", "cuts=(10,)", *(f"{k}={v!r}" for k, v in more.items()))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed, whole = ([sys.executable, str(WORKER), str(tmp_path / name), *words] for name in ("killed", "whole"))
    victim = subprocess.Popen(killed, env=environment, stderr=subprocess.DEVNULL)
    log = tmp_path / "killed" / "log.csv"
    wait_until(lambda: (log.exists() and len(log.read_text().splitlines()) >= 5) or victim.poll() is not None)
    assert victim.poll() is None, "the run ended before it could be killed"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert not (tmp_path / "killed" / "weights.safetensors").exists()
    for command in ([*killed, "resume"], whole):
        subprocess.run(command, check=True, env=environment, capture_output=True)
    assert_same(tmp_path / "killed", tmp_path / "whole")
    rows = log_of(tmp_path / "killed")
    assert [int(row["epoch"]) for row in rows] == list(range(16))
    results = json.loads((tmp_path / "killed" / "run.json").read_text())["results"]
    assert results["seconds"] == pytest.approx(sum(float(row["seconds"]) for row in rows))


def test_of_several_jobs_each_goes_on_from_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: Path
) -> None:
    """Killed when the first of two jobs has ended, and before the second has written its second checkpoint."""
    jobs, save = [colour_job(tmp_path / "a", 1), colour_job(tmp_path / "b", 2)], training_run.save_checkpoint

    def interrupted(folder: Path, step: Any, settings: Any, epochs_done: int) -> None:
        if folder.name == "b" and epochs_done == 2:
            raise KeyboardInterrupt
        save(folder, step, settings, epochs_done)

    monkeypatch.setattr(training_run, "save_checkpoint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(IMAGES, jobs, tiny_recipe(epochs=3), QUICK)
    monkeypatch.undo()
    assert [read_tensors(tmp_path / name / "checkpoint.safetensors")[1]["epochs_done"] for name in "ab"] == [3, 1]
    train(IMAGES, jobs, tiny_recipe(epochs=3), QUICK, resume=True)
    for name in "ab":
        assert_same(tmp_path / name, pair / name)
        assert [int(row["epoch"]) for row in log_of(tmp_path / name)] == list(range(3))


def test_a_run_that_has_ended_keeps_its_records(trained: Outcome, copied: Copied) -> None:
    folder = copied(trained)
    files = {name: (folder / name).read_bytes() for name in ("run.json", "weights.safetensors", "log.csv")}
    again = run(folder, **LEARNS, resume=True, about={"device": "another"})
    assert again.results == trained.results
    assert all((folder / name).read_bytes() == content for name, content in files.items())
    (folder / "weights.safetensors").unlink()  # as if killed between the last checkpoint and the end
    again = run(folder, **LEARNS, resume=True)
    assert again.results == {**trained.results, "execution": None}
    assert_same(folder, trained.job.folder)


def test_a_checkpoint_of_other_settings_is_refused_and_every_folder_left_as_it_was(
    trained: Outcome, copied: Copied, tmp_path: Path
) -> None:
    folder = copied(trained)
    jobs = [colour_job(tmp_path / "first"), colour_job(folder)]
    with pytest.raises(ValueError, match="holds a checkpoint already: resume it, or choose another folder"):
        train(IMAGES, jobs, tiny_recipe(**LEARNS), QUICK)
    for seed, about, changes, said in (
        (1, None, {"epochs": 9, "name": "mine"}, "its epochs is 8, asked for is 9$"),
        (9, None, {}, "its seed is 1, asked for is 9$"),
        (1, {"image_size": 40}, {}, "its image_size is 32, asked for is 40$"),
    ):
        jobs = [colour_job(tmp_path / "first", seed), colour_job(folder, seed)]
        with pytest.raises(ValueError, match=f"cannot be resumed: {said}"):
            train(IMAGES, jobs, tiny_recipe(**{**LEARNS, **changes}), QUICK, resume=True, about=about)
    (folder / "checkpoint.safetensors").unlink()
    for resume in (False, True):
        with pytest.raises(ValueError, match="holds trained weights, and no checkpoint to resume"):
            run(folder, **LEARNS, resume=resume)
    assert not (tmp_path / "first").exists()


def test_a_training_that_diverges_ends_with_its_last_good_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is nan in epoch 3; try a smaller --learning-rate"):
        run(tmp_path, epochs=4, cuts=(2,), cut_factor=1e30)
    tensors, meta = read_tensors(tmp_path / "checkpoint.safetensors")
    assert meta["epochs_done"] == 2
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())
    assert not (tmp_path / "weights.safetensors").exists()


def test_weights_that_are_not_finite_are_never_written(trained: Outcome, tmp_path: Path) -> None:
    network, settings = load_run(trained.job.folder)
    with torch.no_grad():
        network.head.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"was not written, 'head\.weight' is not finite"):
        training_run.save_trained(tmp_path, network, settings, {})
    assert not (tmp_path / "weights.safetensors").exists()


def test_a_file_of_another_kind_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.safetensors"
    write_tensors(file, {"base_mean": torch.zeros(3)}, {})
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors is no trained run but a file of another kind"):
        load_run(file)
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors is no checkpoint of a base session"):
        run(tmp_path, resume=True)


def test_global_random_state_is_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[union-attr]
    run(tmp_path, epochs=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], before_numpy)  # type: ignore[index]


def test_errors_name_rule_and_value(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="96 training images do not fill one batch of 100"):
        run(tmp_path, batch_size=100)
    with pytest.raises(ValueError, match="images of 32 pixels are smaller than the crops of 40"):
        run(tmp_path, crop_size=40)
    for device in ("gpu", "meta"):
        with pytest.raises(ValueError, match=f"device must be auto, cpu, cuda or cuda:N; got '{device}'"):
            run(tmp_path, Runtime(device=device))
    for name in ("checkpoint_every", "validate_every"):
        with pytest.raises(ValueError, match=f"{name} must be at least 0; got -1"):
            Runtime(**{name: -1})
