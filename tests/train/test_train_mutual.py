"""Members that learn from each other: the loss against plain loops, a step against that of a member alone, a run."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from colour_classes import CLASSES, colour_images, colour_job, tiny_recipe

from subspan.backbones.checkpoint import read_tensors
from subspan.train import run as training_run
from subspan.train.evaluate import normalised
from subspan.train.mutual import MutualMembers, agreement_loss
from subspan.train.recipe import MEAN, STD, Recipe, build_learner, member_recipe
from subspan.train.run import load_run
from subspan.train.seeds import member_seed
from subspan.train.source import ResidentImages
from subspan.train.step import TrainStep
from subspan.train.trainer import Outcome, Runtime, train

SMOOTH = {"norm": "group", "dropblock": "none", "learning_rate": 0.01}  # rounding stays rounding
QUICK = Runtime(device="cpu", tensorboard=False, progress=False, checkpoint_every=1, validate_every=1)
CPU = torch.device("cpu")


def recipe(**changes: object) -> Recipe:
    mutual = {"head": "cosine", "members": 3, "mutual": 0.5, "kept_features": 10, "cutmix": 0.5}
    return tiny_recipe(**{**mutual, "epochs": 2, "cuts": (1,), **changes})


def run(folder: Path, *, resume: bool = False, runtime: Runtime = QUICK, **changes: object) -> Outcome:
    images, _ = colour_images()
    about = {"device": f"resumed: {resume}"}
    return train(images, [colour_job(folder)], recipe(**changes), runtime, resume=resume, about=about)[0]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return read_tensors(folder / "weights.safetensors")[0]


def made_logits() -> torch.Tensor:
    return torch.randn(3, 5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()


def test_the_loss_is_each_ones_cross_entropy_by_the_mean_of_the_others() -> None:
    logits = made_logits()
    values = logits.detach().numpy()
    odds = np.exp(values)
    probabilities = odds / odds.sum(2, keepdims=True)
    total = 0.0
    for member in range(3):
        for image in range(5):
            for label in range(4):
                target = np.mean([probabilities[other, image, label] for other in range(3) if other != member])
                total -= target * np.log(probabilities[member, image, label]) / 5
    assert agreement_loss(logits).item() == pytest.approx(total, rel=1e-5)


def test_the_others_answers_are_constants() -> None:
    logits = made_logits()
    agreement_loss(logits).backward()
    probabilities = logits.detach().softmax(2)
    others = (probabilities.sum(0) - probabilities) / 2
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, (probabilities - others) / 5, rtol=1e-5, atol=1e-7)


def steps_of(chosen: Recipe, network: Any) -> TrainStep:
    images, labels = colour_images()
    rows = colour_job(Path()).train_rows
    source = ResidentImages(torch.from_numpy(images))
    step = TrainStep(chosen, network, source, rows, labels[rows], CLASSES, seed=5, device=CPU)
    step.prepare("eager")
    for epoch in range(chosen.epochs):
        for _ in step.epoch(epoch):
            pass
    return step


def test_a_member_that_hardly_listens_learns_as_it_does_alone() -> None:
    chosen = recipe(mutual=1e-9, epochs=1, cuts=(), **SMOOTH)
    together = steps_of(chosen, build_learner(chosen, CLASSES, 3))
    loss, correct = together.read_counters()
    alone = [
        steps_of(one, build_learner(one, CLASSES, member_seed(3, i)))
        for one in [member_recipe(chosen)]
        for i in range(3)
    ]
    for member, single in zip(together.networks, alone, strict=True):
        for name, value in single.network.state_dict().items():
            torch.testing.assert_close(member.state_dict()[name], value, rtol=1e-3, atol=1e-5)
    counters = np.mean([single.read_counters() for single in alone], axis=0)
    assert (loss, correct) == pytest.approx(tuple(counters), rel=1e-3)


def test_members_that_listen_agree_more_than_members_that_do_not() -> None:
    images, _ = colour_images()
    shown = normalised(torch.from_numpy(images), MEAN, STD)
    apart = []
    for mutual in (1e-9, 0.9):
        chosen = recipe(mutual=mutual, jitter=0.0, cutmix=0.0, epochs=5, cuts=(), **SMOOTH)
        learner = steps_of(chosen, build_learner(chosen, CLASSES, 3)).network
        assert isinstance(learner, MutualMembers)
        with torch.no_grad():
            apart.append(learner(shown).softmax(2).std(0).mean().item())
    assert apart[1] < 0.8 * apart[0]


def test_a_run_ends_with_one_network_and_keeps_its_members(tmp_path: Path) -> None:
    outcome = run(tmp_path, epochs=8, cuts=(6,), jitter=0.0, cutmix=0.0, clean_statistics=True)
    assert outcome.test >= 90
    results = json.loads((tmp_path / "run.json").read_text())["results"]
    assert (results["validation"], results["test"]) == (outcome.validation, outcome.test)
    assert len((tmp_path / "log.csv").read_text().splitlines()) == 9
    shown = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    network, settings = load_run(tmp_path)
    torch.testing.assert_close(network(shown), outcome.network.eval()(shown))
    assert settings.recipe.mutual == 0.5
    for i in (1, 2, 3):
        member, own = load_run(tmp_path / f"member-{i}")
        assert results["members"][i - 1] == training_run.results_of(tmp_path / f"member-{i}")
        assert (own.recipe, own.seed) == (member_recipe(settings.recipe), member_seed(1, i - 1))
        assert own.about["learned_with"] == {"others": 2, "mutual": 0.5}
        torch.testing.assert_close(member.backbone(shown), network.backbone.members[i - 1](shown))  # type: ignore[index, operator]


def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, object] = {"epochs": 3, "cuts": (2,), "average_decay": 0.9}
    run(tmp_path / "whole", **changes)
    save = training_run.save_checkpoint

    def killed(*given: Any) -> None:
        save(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training_run, "save_checkpoint", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "stopped", **changes)
    run(tmp_path / "stopped", resume=True, **changes)
    for folder in ("", "member-2"):
        one, other = weights(tmp_path / "whole" / folder), weights(tmp_path / "stopped" / folder)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    run(tmp_path / "stopped", resume=True, **changes)  # had ended: joined again, to the same network
    assert all(
        torch.equal(one, weights(tmp_path / "stopped")[name]) for name, one in weights(tmp_path / "whole").items()
    )


@pytest.mark.slow
def test_how_the_machine_is_used_does_not_change_what_members_learn(tmp_path: Path) -> None:
    two = {"members": 2, "epochs": 1, "cuts": (), **SMOOTH}
    run(tmp_path / "plain", **two)
    compiled = Runtime(device="cpu", execution="compiled", compile_mode="default", tensorboard=False, progress=False)
    run(tmp_path / "compiled", runtime=compiled, **two)
    one, other = (weights(tmp_path / name / "member-1") for name in ("plain", "compiled"))
    for name, value in one.items():
        torch.testing.assert_close(other[name], value, rtol=1e-2, atol=1e-3)


def test_members_apart_and_members_together_do_not_overwrite_each_other(tmp_path: Path) -> None:
    run(tmp_path / "together")
    run(tmp_path / "apart", mutual=0.0)
    with pytest.raises(ValueError, match=r"one network or members that learn together, not members trained apart"):
        run(tmp_path / "together", mutual=0.0, resume=True)
    with pytest.raises(ValueError, match=r"members trained apart, not one network or members that learn together"):
        run(tmp_path / "apart", resume=True)
    with pytest.raises(ValueError, match=r"cannot be resumed: its mutual is 0\.5, asked for is 0\.4"):
        run(tmp_path / "together", mutual=0.4, resume=True)


def test_a_run_at_its_end_keeps_its_records(tmp_path: Path) -> None:
    first = run(tmp_path)
    folders = [tmp_path / name for name in ("", "member-1", "member-2", "member-3")]
    records = [folder / name for folder in folders for name in ("run.json", "weights.safetensors")]
    before = [record.read_bytes() for record in records]
    again = run(tmp_path, resume=True)
    assert [record.read_bytes() for record in records] == before
    assert again.results() == first.results()
    shown = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(again.network.eval()(shown), first.network.eval()(shown))
    (tmp_path / "member-2" / "weights.safetensors").unlink()  # as if killed while members were written
    run(tmp_path, resume=True)
    assert (tmp_path / "member-2" / "weights.safetensors").exists()


def test_members_and_their_network_are_not_written_over(tmp_path: Path) -> None:
    without = dataclasses.replace(QUICK, checkpoint_every=0)
    run(tmp_path / "run")
    run(tmp_path / "alone", runtime=without, mutual=0.0, members=1)
    run(tmp_path / "together", runtime=without)
    run(tmp_path / "apart", runtime=without, mutual=0.0)
    (tmp_path / "apart" / "weights.safetensors").unlink()  # as if killed before the members were joined
    kept = [tmp_path / name for name in ("run/member-1", "alone", "together", "together/member-1")]
    before = [weights(folder) for folder in kept]
    for resume in (False, True):
        for name, changes in (
            ("run/member-1", {"mutual": 0.0, "members": 1}),
            ("alone", {"mutual": 0.0, "members": 1}),
            ("alone", {"mutual": 0.0, "members": 2}),
            ("alone", {}),
            ("together", {}),
            ("together", {"mutual": 0.0}),
            ("apart", {"mutual": 0.0, "members": 1}),
        ):
            with pytest.raises(ValueError, match="holds trained weights, and no checkpoint to resume"):
                run(tmp_path / name, resume=resume, **changes)
    for folder, old in zip(kept, before, strict=True):
        assert all(torch.equal(old[key], value) for key, value in weights(folder).items())


def test_a_network_alone_is_no_group(tmp_path: Path) -> None:
    together, alone = recipe(), member_recipe(recipe())
    for chosen, built in ((together, alone), (alone, together)):
        with pytest.raises(ValueError, match="needs members that learn together, and only it: use build_learner"):
            steps_of(chosen, build_learner(built, CLASSES, 3))
