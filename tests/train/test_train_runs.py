"""Whole trainings of tiny networks: they learn, and a killed run ends where an uninterrupted one does."""

import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from colour_classes import colour_images, colour_job, tiny_recipe
from safetensors.torch import load

from subspan.backbones.blocks import BatchNorm
from subspan.backbones.checkpoint import read_tensors, write_tensors
from subspan.train import run as training_run
from subspan.train import step
from subspan.train.run import load_run
from subspan.train.trainer import Outcome, Runtime, train
from waiting import wait_until

WORKER = Path(__file__).with_name("train_worker.py")
QUICK = Runtime(device="cpu", progress=False, checkpoint_every=2, validate_every=2)
# Enough to tell four colours apart; with dropout such a small network ends below 90 % with one seed in ten.
LEARNS = {"epochs": 8, "cuts": (6,), "jitter": 0.0, "dropblock": "none"}


def run(folder: Path, runtime: Runtime = QUICK, *, seed: int = 1, **changes: object) -> Outcome:
    images, _ = colour_images()
    return train(images, [colour_job(folder, seed)], tiny_recipe(**changes), runtime)[0]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "weights.safetensors")[0]


def assert_same(first: Path, second: Path) -> None:
    assert_same_tensors(weights(first), weights(second))


def assert_same_tensors(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_network_learns_colours_and_leaves_records(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run", **LEARNS)
    assert outcome.test >= 90
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["results"]["test"] == outcome.test
    with (tmp_path / "run" / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == list(range(8))
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert [float(row["rate"]) for row in rows] == pytest.approx([0.05] * 6 + [0.005] * 2)
    assert [bool(row["validation"]) for row in rows] == [False, True] * 3 + [False, False]


@pytest.mark.parametrize(
    "changes",
    [
        {"cutmix": 0.6, "se": True, "head": "cosine", "schedule": "cosine", "cuts": (), "label_smoothing": 0.1},
        {
            "rotation_share": 0.5,
            "resized_share": 0.5,
            "backbone": "resnet18-he",
            "head": "euclidean",
        },
        {"rotation_share": 0.5, "cutmix": 0.6, "head": "cosine", "margin": -0.1, "precision": "bf16"},
        {"early_size": 16, "early_share": 0.5, "cutmix": 0.6, "cutmix_per": "image", "resized_share": 0.5},
        {"optimiser": "muon", "kernel_rate": 0.02, "backbone": "resnet18-he", "precision": "bf16"},
    ],
)
def test_other_recipes_run(tmp_path: Path, changes: dict[str, object]) -> None:
    outcome = run(tmp_path, epochs=2, **changes)
    assert 0 <= outcome.test <= 100
    assert all(torch.isfinite(value.float()).all() for value in weights(tmp_path).values())


def test_images_grow_after_the_early_epochs(tmp_path: Path) -> None:
    seen: list[int] = []
    whole = step.TrainStep._body

    def noted(self: step.TrainStep, size: int) -> None:
        seen.append(size)
        whole(self, size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step.TrainStep, "_body", noted)
        outcome = run(tmp_path / "small", **LEARNS, early_size=16, early_share=0.5)
    assert seen == [16] * 24 + [32] * 24
    assert outcome.test >= 90


def test_streamed_images_give_the_same_weights(tmp_path: Path) -> None:
    run(tmp_path / "device", epochs=2)
    run(tmp_path / "host", Runtime(device="cpu", progress=False, images="host"), epochs=2)
    assert_same(tmp_path / "device", tmp_path / "host")


def used_statistics(outcome: Outcome) -> set[str]:
    return {part.statistics for part in outcome.network.modules() if isinstance(part, BatchNorm)}


def test_the_compiler_knows_what_it_is_told() -> None:
    step._compiled(torch.sin)  # raises on an option that it does not know


def test_a_compiled_step_takes_batch_statistics_from_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = Runtime(device="cpu", execution="compiled", progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(step, "_compiled", lambda part: part)  # the compiler's part is not what is tested
        outcome = run(tmp_path / "sums", compiled, **LEARNS)
        assert outcome.test >= 90
        assert used_statistics(outcome) == {"sums"}
        plain = run(tmp_path / "plain", dataclasses.replace(compiled, statistics="plain"), epochs=1)
        assert used_statistics(plain) == {"plain"}
    assert used_statistics(run(tmp_path / "eager", epochs=1)) == {"plain"}

    def fail(part: object) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(step, "_compiled", fail)
    with pytest.warns(RuntimeWarning, match="no compiler"):
        assert used_statistics(run(tmp_path / "failed", compiled, epochs=1)) == {"plain"}


def test_networks_trained_together_equal_those_trained_alone(tmp_path: Path) -> None:
    images, _ = colour_images()
    jobs = [colour_job(tmp_path / "a", 1), colour_job(tmp_path / "b", 2)]
    train(images, jobs, tiny_recipe(epochs=2), QUICK)
    run(tmp_path / "alone", seed=2, epochs=2)
    assert_same(tmp_path / "b", tmp_path / "alone")
    assert not torch.equal(weights(tmp_path / "a")["head.weight"], weights(tmp_path / "b")["head.weight"])


def worker(folder: Path, *words: str) -> list[str]:
    return [sys.executable, str(WORKER), str(folder), *words]


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [{}, {"rotation_share": 0.5, "early_size": 16, "early_share": 0.5}, {"optimiser": "muon"}],
    ids=["sgd", "turns, small", "muon"],
)
def test_a_killed_run_resumes_to_the_same_weights(tmp_path: Path, more: dict[str, Any]) -> None:
    words = ("epochs=16", "cuts=(10,)", *(f"{k}={v!r}" for k, v in more.items()))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    victim = subprocess.Popen(worker(tmp_path / "killed", *words), env=environment, stderr=subprocess.DEVNULL)
    log = tmp_path / "killed" / "log.csv"
    wait_until(lambda: (log.exists() and len(log.read_text().splitlines()) >= 5) or victim.poll() is not None)
    assert victim.poll() is None, "the run ended before it could be killed"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert not (tmp_path / "killed" / "weights.safetensors").exists()
    subprocess.run(worker(tmp_path / "killed", "resume", *words), check=True, env=environment, capture_output=True)
    subprocess.run(worker(tmp_path / "whole", *words), check=True, env=environment, capture_output=True)
    assert_same(tmp_path / "killed", tmp_path / "whole")
    with log.open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["epoch"]) for row in rows] == list(range(16))
    results = json.loads((tmp_path / "killed" / "run.json").read_text())["results"]
    assert results["seconds"] == pytest.approx(sum(float(row["seconds"]) for row in rows))


def test_jobs_whose_checkpoints_are_of_different_epochs_catch_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the first of two jobs has written its checkpoint, and before the second has."""
    images, _ = colour_images()
    every_epoch = dataclasses.replace(QUICK, checkpoint_every=1)

    def both(folder: Path, *, resume: bool = False) -> list[Outcome]:
        jobs = [colour_job(folder / "a", 1), colour_job(folder / "b", 2)]
        return train(images, jobs, tiny_recipe(epochs=4), every_epoch, resume=resume)

    both(tmp_path / "whole")
    save = training_run.save_checkpoint

    def interrupted(folder: Path, step: Any, settings: Any, epochs_done: int) -> None:
        if folder.name == "b" and epochs_done == 3:
            raise KeyboardInterrupt
        save(folder, step, settings, epochs_done)

    monkeypatch.setattr(training_run, "save_checkpoint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        both(tmp_path / "torn")
    monkeypatch.undo()
    kept = [read_tensors(tmp_path / "torn" / name / "checkpoint.safetensors")[1]["epochs_done"] for name in "ab"]
    assert kept == [3, 2]
    both(tmp_path / "torn", resume=True)
    for name in "ab":
        assert_same(tmp_path / "torn" / name, tmp_path / "whole" / name)
        with (tmp_path / "torn" / name / "log.csv").open() as file:
            assert [int(row["epoch"]) for row in csv.DictReader(file)] == list(range(4))


def test_a_run_that_has_ended_keeps_its_records(tmp_path: Path) -> None:
    images, _ = colour_images()
    run(tmp_path, epochs=2)
    before = json.loads((tmp_path / "run.json").read_text())
    files = {name: (tmp_path / name).read_bytes() for name in ("run.json", "weights.safetensors", "log.csv")}

    def again() -> Outcome:
        job = colour_job(tmp_path)
        return train(images, [job], tiny_recipe(epochs=2), QUICK, resume=True, about={"device": "another"})[0]

    assert again().results() == before["results"]
    assert all((tmp_path / name).read_bytes() == content for name, content in files.items())
    (tmp_path / "weights.safetensors").unlink()  # as if killed between the last checkpoint and the end
    found = again().results()
    assert found == {**before["results"], "execution": None}
    assert_same_tensors(load(files["weights.safetensors"]), weights(tmp_path))


def test_a_refusal_leaves_every_folder_as_it_was(tmp_path: Path) -> None:
    run(tmp_path / "second")
    images, _ = colour_images()
    jobs = [colour_job(tmp_path / name) for name in ("first", "second")]
    for resume, said in ((False, "holds a checkpoint already"), (True, "its epochs is 4, asked for is 5")):
        with pytest.raises(ValueError, match=said):
            train(images, jobs, tiny_recipe(epochs=5), QUICK, resume=resume)
    assert not (tmp_path / "first").exists()


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    run(tmp_path, epochs=2)
    images, _ = colour_images()
    with pytest.raises(ValueError, match="holds a checkpoint already: resume it, or choose another folder"):
        run(tmp_path, epochs=2)

    def resumed(seed: int = 1, *, about: dict[str, Any] | None = None, **changes: object) -> None:
        job, recipe = colour_job(tmp_path, seed), tiny_recipe(**{"epochs": 2, **changes})
        train(images, [job], recipe, QUICK, resume=True, about=about)

    with pytest.raises(ValueError, match=r"cannot be resumed: its epochs is 2, asked for is 3$"):
        resumed(epochs=3, name="mine")
    with pytest.raises(ValueError, match=r"cannot be resumed: its seed is 1, asked for is 9$"):
        resumed(9)
    with pytest.raises(ValueError, match=r"cannot be resumed: its image_size is 32, asked for is 40$"):
        resumed(about={"image_size": 40})
    (tmp_path / "run.json").unlink()
    with pytest.raises(ValueError, match=r"cannot be resumed: its recipe is '[0-9a-f]{64}', asked for is"):
        resumed(epochs=3)


def test_a_checkpoint_without_an_image_size_is_one_of_the_crop_size(tmp_path: Path) -> None:
    run(tmp_path, epochs=2)
    checkpoint = tmp_path / "checkpoint.safetensors"
    tensors, meta = read_tensors(checkpoint)
    del meta["identity"]["image_size"]
    write_tensors(checkpoint, tensors, meta)
    images, _ = colour_images()
    recipe = tiny_recipe(epochs=2)
    train(images, [colour_job(tmp_path)], recipe, QUICK, resume=True)
    with pytest.raises(ValueError, match="its image_size is 32, asked for is 40"):
        train(images, [colour_job(tmp_path)], recipe, QUICK, resume=True, about={"image_size": 40})


def test_a_training_that_diverges_ends_with_its_last_good_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is nan in epoch 3; try a smaller --learning-rate"):
        run(tmp_path, dataclasses.replace(QUICK, checkpoint_every=1), cuts=(2,), cut_factor=1e30)
    tensors, meta = read_tensors(tmp_path / "checkpoint.safetensors")
    assert meta["epochs_done"] == 2
    assert all(torch.isfinite(tensor).all() for tensor in tensors.values())
    assert not (tmp_path / "weights.safetensors").exists()


def test_weights_that_are_not_finite_are_never_written(tmp_path: Path) -> None:
    outcome = run(tmp_path / "run", epochs=1, cuts=())
    _, settings = load_run(tmp_path / "run")
    with torch.no_grad():
        outcome.network.head.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"was not written, 'head\.weight' is not finite"):
        training_run.save_trained(tmp_path, outcome.network, settings, {})
    assert not (tmp_path / "weights.safetensors").exists()


def test_a_file_of_another_kind_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "checkpoint.safetensors"
    write_tensors(file, {"base_mean": torch.zeros(3)}, {})
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors is no trained run but a file of another kind"):
        load_run(file)
    images, _ = colour_images()
    with pytest.raises(ValueError, match=r"checkpoint\.safetensors is no checkpoint of a base session"):
        train(images, [colour_job(tmp_path)], tiny_recipe(epochs=2), QUICK, resume=True)


@pytest.mark.parametrize("changes", [{}, {"members": 3, "head": "cosine", "kept_features": 10}], ids=["one", "joined"])
def test_a_trained_network_comes_back(tmp_path: Path, changes: dict[str, Any]) -> None:
    outcome = run(tmp_path / "run", epochs=2, **changes)
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    expected = outcome.network.eval()(images)
    network, settings = load_run(tmp_path / "run")
    torch.testing.assert_close(network(images), expected)
    assert settings.recipe == tiny_recipe(epochs=2, **changes)
    with pytest.raises(FileNotFoundError, match="no trained weights at"):
        load_run(tmp_path)


def test_global_random_state_is_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    before, before_numpy = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[union-attr]
    run(tmp_path, epochs=1, cuts=())
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], before_numpy)  # type: ignore[index]


def test_errors_name_rule_and_value(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="96 training images do not fill one batch of 100"):
        run(tmp_path / "a", batch_size=100)
    with pytest.raises(ValueError, match="a CUDA graph needs a CUDA device, got cpu"):
        run(tmp_path / "b", Runtime(device="cpu", execution="graph", progress=False))
    for device in ("gpu", "meta"):
        with pytest.raises(ValueError, match=f"device must be auto, cpu, cuda or cuda:N; got '{device}'"):
            run(tmp_path / "c", Runtime(device=device))
    for name in ("checkpoint_every", "validate_every"):
        with pytest.raises(ValueError, match=f"{name} must be at least 0; got -1"):
            Runtime(**{name: -1})
