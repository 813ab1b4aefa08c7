"""Trained parts in files: what is written is found again, and what does not fit is refused in a sentence."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from made_up_world import C0, D, make_world
from quick_parts import quick_run, untrained, with_part, write_part
from safetensors.torch import save_file

from subspan.experiments.multi_session import MultiSession
from subspan.features.feature_set import FeatureSet
from subspan.files.arrays import SUFFIXES, read_arrays, write_arrays
from subspan.learners.registry import create_method
from subspan.learners.training import trained_part
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.trained_part import HEADER, TrainedPart, TrainedPartError, find_part, signature_of
from subspan.learners.training.trained_system import TrainedSystem

WORLD = make_world()
FEATURES = TrainingFeatures.drawn(WORLD, 40, seed=1)
ROWS = FEATURES.base.rows


def part(**changes) -> TrainedPart:
    given = {"system": "lwof", "options": {"shots": 2}, "tensors": {"scale": torch.tensor([2.0, 0.25])}, "width": D}
    given |= {"signature": tuple(signature_of(ROWS).tolist()), "source": "drawn", "about": {"steps": 3}}
    return TrainedPart(**{**given, **changes})


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_part_is_read_as_it_was_written(tmp_path, suffix):
    read = TrainedPart.load(part().save(tmp_path / "folder" / f"part{suffix}"))
    assert (read.system, read.options, read.width, read.source) == ("lwof", {"shots": 2}, D, "drawn")
    assert read.about == {"steps": 3}
    assert torch.equal(read.tensors["scale"], torch.tensor([2.0, 0.25]))
    assert read.belongs_to(ROWS)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_matrices_in_int8_have_a_scale_for_each_row(tmp_path, suffix):
    weight = torch.tensor([[127.0, -1.0, 0.4], [0.0, 0.0, 0.0], [1e-3, 2e-3, -4e-3]])
    tensors = {"weight": weight, "bias": torch.tensor([0.3])}
    path = part(tensors=tensors).save(tmp_path / f"part{suffix}", precision="int8")
    read = TrainedPart.load(path).tensors
    assert set(read) == {"weight", "bias"}
    assert (read["weight"] - weight).abs().le(weight.abs().amax(1, keepdim=True) / 254 * 1.001).all()
    assert torch.equal(read["bias"], tensors["bias"].half().float())


def test_rows_are_known_again_in_any_arithmetic_with_or_without_a_bias():
    assert part().belongs_to(ROWS.double())
    assert part().belongs_to(ROWS.half().float())
    assert part().belongs_to(torch.cat([ROWS, torch.ones(C0, 1)], dim=1))
    for other in (ROWS[1:], ROWS[:, 1:], ROWS.flip(0), make_rows(1)):
        assert not part().belongs_to(other)


def test_rows_that_went_through_half_precision_are_known_again_and_similar_rows_are_not():
    rows = torch.randn(64, 640, generator=torch.Generator().manual_seed(0))
    rounded = rows.half().float()
    for trained, given in ((rows, rounded), (rounded, rows)):
        kept = part(signature=tuple(signature_of(trained).tolist()), width=640)
        assert kept.belongs_to(given)
        one_moved = given.clone()
        one_moved[5] += 0.02 * torch.randn(640, generator=torch.Generator().manual_seed(1))
        assert not kept.belongs_to(one_moved)


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_a_part_belongs_to_its_features_in_lower_precision_too(tmp_path, precision):
    rows, rounded = (
        torch.tensor(features.base_weight)
        for features in (WORLD, FeatureSet.load(WORLD.save(tmp_path / "world.npz", precision)))
    )
    assert not torch.equal(rows, rounded), "rounding must have happened, or this shows nothing"
    for trained, given in ((rows, rounded), (rounded, rows), (rounded, rows.half().float())):
        assert part(signature=tuple(signature_of(trained).tolist())).belongs_to(given)


def make_rows(seed: int) -> torch.Tensor:
    return torch.tensor(make_world(seed).base_weight)


def test_what_does_not_fit_is_refused(tmp_path):
    path = part().save(tmp_path / "part.safetensors")
    with pytest.raises(TrainedPartError, match="is a trained part of system 'lwof', not of 'cec'"):
        find_part(path, "cec", ROWS, {})
    with pytest.raises(TrainedPartError, match=f"trained for other features: its {C0} base rows of width {D}"):
        find_part(path, "lwof", make_rows(1), {})
    with pytest.raises(TrainedPartError, match="was trained with shots=2, asked for is shots=1"):
        find_part(path, "lwof", ROWS, {"shots": 1})
    with pytest.raises(TrainedPartError, match="there is no trained part"):
        find_part(tmp_path / "absent.safetensors", "lwof", ROWS, {})
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(TrainedPartError, match="holds arrays but no trained part"):
        find_part(tmp_path / "other.safetensors", "lwof", ROWS, {})
    for suffix in SUFFIXES:
        (tmp_path / f"cut{suffix}").write_bytes(part().save(tmp_path / f"whole{suffix}").read_bytes()[:50])
        with pytest.raises(TrainedPartError, match=f"no readable {suffix[1:]} file|is damaged"):
            find_part(tmp_path / f"cut{suffix}", "lwof", ROWS, {})
    with pytest.raises(TrainedPartError, match=r"a trained part is written as .safetensors or .npz; got '.*part.pt'"):
        part().save(tmp_path / "part.pt")
    with pytest.raises(TrainedPartError, match="'scale' holds NaN"):
        part(tensors={"scale": torch.tensor(torch.nan)}).save(tmp_path / "nan.safetensors")
    assert not (tmp_path / "nan.safetensors").exists()


@pytest.mark.parametrize(
    "wrong", [{"signature": None}, {"signature": "abc"}, {"width": "wide"}, {"format": "new"}, {"options": 3}]
)
def test_a_header_of_other_kinds_is_damaged(tmp_path, wrong):
    path = part().save(tmp_path / "part.safetensors")
    arrays, text = read_arrays(path, HEADER, TrainedPartError)
    assert text is not None
    write_arrays(path, arrays, HEADER, json.dumps({**json.loads(text), **wrong}))
    for place in (path, tmp_path):
        with pytest.raises(TrainedPartError, match=r"the header of .* is damaged"):
            find_part(place, "lwof", ROWS, {})


def test_a_newer_format_is_named(tmp_path):
    path = part().save(tmp_path / "part.safetensors")
    arrays, _ = read_arrays(path, HEADER, TrainedPartError)
    write_arrays(path, arrays, HEADER, json.dumps({"format": 99}))
    with pytest.raises(TrainedPartError, match="has format 99; this version of Subspan reads"):
        find_part(path, "lwof", ROWS, {})


def test_the_part_for_these_rows_is_found_in_a_folder(tmp_path):
    for seed in range(3):
        signature = tuple(signature_of(make_rows(seed)).tolist())
        part(signature=signature).save(tmp_path / f"{seed}.safetensors")
    part(options={"shots": 1}).save(tmp_path / "one-shot.safetensors")
    assert find_part(tmp_path, "lwof", make_rows(2), {}).path == str(tmp_path / "2.safetensors")
    assert find_part(tmp_path, "lwof", ROWS, {"shots": 1}).path == str(tmp_path / "one-shot.safetensors")
    with pytest.raises(TrainedPartError, match=r"several trained parts in .* fit, '0.safetensors' and 'one-shot"):
        find_part(tmp_path, "lwof", ROWS, {})
    for usual in ({"shots": 1}, {"shots": 1, "dropout": 0.3}):  # neither was trained with such dropout
        assert find_part(tmp_path, "lwof", ROWS, {}, usual=usual).path == str(tmp_path / "one-shot.safetensors")
    with pytest.raises(TrainedPartError, match="has no trained part of system 'lwof', shots=7 for these features"):
        find_part(tmp_path, "lwof", ROWS, {"shots": 7})


def test_of_a_folder_no_part_is_read_but_the_one_that_fits(tmp_path, monkeypatch):
    signatures = [tuple(signature_of(make_rows(seed)).tolist()) for seed in range(2)]
    for seed, signature in enumerate(signatures):
        part(signature=signature).save(tmp_path / f"{seed}.npz")
    read = []
    monkeypatch.setattr(
        trained_part, "read_arrays", lambda path, *more: read.append(path.name) or read_arrays(path, *more)
    )
    find_part(tmp_path, "lwof", make_rows(1), {})
    assert read == ["1.npz"]
    part(signature=signatures[1], about={"steps": 12345}).save(tmp_path / "0.npz")  # in place of that for other rows
    with pytest.raises(TrainedPartError, match=r"several trained parts in .* fit, '0.npz' and '1.npz'"):
        find_part(tmp_path, "lwof", make_rows(1), {})


def test_a_link_to_nothing_in_a_folder_is_told_in_a_sentence(tmp_path):
    part().save(tmp_path / "part.npz")
    (tmp_path / "gone.npz").symlink_to("nowhere.npz")
    with pytest.raises(TrainedPartError, match=r"there is no trained part '.*gone.npz'"):
        find_part(tmp_path, "lwof", ROWS, {})


def test_a_changed_file_is_read_again(tmp_path):
    path = part().save(tmp_path / "part.safetensors")
    assert TrainedPart.load(path) is TrainedPart.load(path)
    part(tensors={"scale": torch.tensor([3.0, 0.5, 1.0])}).save(path)
    assert TrainedPart.load(path).tensors["scale"].tolist() == [3.0, 0.5, 1.0]


def test_a_system_without_its_part_says_what_to_run():
    with pytest.raises(ValueError, match="make it with: subspan train --system lwof FEATURES --out FILE"):
        MultiSession(ways=3, shots=2).run(WORLD, create_method("lwof"), memory=False)


def test_a_part_brings_the_options_it_was_trained_with(tmp_path):
    system = untrained("lwof:attention=false")
    assert isinstance(system, TrainedSystem)
    path = write_part(system, FEATURES, tmp_path / "part.safetensors")
    found = create_method(f"lwof:trained={path}")
    assert isinstance(found, TrainedSystem)
    assert found.as_trained(found.part(FEATURES.base)).attention is False  # type: ignore[attr-defined]


def test_tables_say_that_features_were_drawn():
    with pytest.warns(UserWarning, match="lwof: its part was trained on features drawn from a file's statistics"):
        MultiSession(ways=3, shots=2).run(WORLD, with_part("lwof:shots=2", WORLD), memory=False)


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_a_killed_training_goes_on_to_the_same_end(tmp_path, optimiser):
    system = untrained("lwof")
    assert isinstance(system, TrainedSystem)

    class KilledError(Exception):
        pass

    def kill(stage, done, total, loss):
        if done == 20:
            raise KilledError

    whole = quick_run(system, steps=40, optimiser=optimiser)
    expected = system.train_part(FEATURES, whole)
    kept = dataclasses.replace(whole, checkpoint=tmp_path / "part", resume=True, seconds_between_checkpoints=0.0)
    with pytest.raises(KilledError):
        system.train_part(FEATURES, dataclasses.replace(kept, tell=kill))
    told: list[int] = []
    found = system.train_part(FEATURES, dataclasses.replace(kept, tell=lambda stage, done, *_: told.append(done)))
    assert told == [20, 30, 40]  # step 20 was not kept before the kill
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name
    other = dataclasses.replace(kept, identity="other features")
    with pytest.raises(ValueError, match="is of another training; leave out --resume"):
        system.train_part(FEATURES, other)
    kept.clear()
    assert not list(tmp_path.iterdir())


def test_a_loss_that_runs_away_is_told(tmp_path):
    system = untrained("lwof")
    assert isinstance(system, TrainedSystem)
    with pytest.raises(ValueError, match="the loss is nan after"):
        system.train_part(FEATURES, quick_run(system, rates=(1e30,), rate_cuts=()))


def test_real_features_of_unequal_counts():
    rng = np.random.default_rng(0)
    by_class = [rng.normal(size=(3 + c % 2, D)) for c in range(C0)]
    turned = [rng.normal(size=(len(part), 3, D)) for part in by_class]
    real = TrainingFeatures.real(WORLD, by_class, turned)
    examples, labels = real.examples()
    np.testing.assert_allclose(examples, np.concatenate(by_class), rtol=1e-6)
    assert labels.tolist() == [c for c in range(C0) for _ in by_class[c]]
    assert real.turned is not None
    np.testing.assert_allclose(real.turned[1, :4], turned[1], rtol=1e-6)
    cosine = TrainingFeatures.real(dataclasses.replace(WORLD, head="cosine", head_scale=5.0), by_class)
    np.testing.assert_allclose(cosine.examples()[0].norm(dim=1), 5, rtol=1e-5)
    np.testing.assert_allclose(cosine.base.rows.norm(dim=1), 1, rtol=1e-5)


def test_features_are_taken_however_they_lie_in_memory():
    by_class = [np.random.default_rng(c).normal(size=(4, D)) for c in range(C0)]
    real = TrainingFeatures.real(WORLD, by_class)
    turned = dataclasses.replace(WORLD, base_weight=WORLD.base_weight[::-1].copy()[::-1])
    other = TrainingFeatures.real(turned, [part[::-1].copy()[::-1] for part in by_class])
    np.testing.assert_array_equal(other.features, real.features)
    np.testing.assert_array_equal(other.base.rows, real.base.rows)


def test_drawing_needs_statistics():
    with pytest.raises(
        ValueError, match="needs the array 'base_covariance', which the feature file lacks; train on real"
    ):
        TrainingFeatures.drawn(dataclasses.replace(WORLD, base_covariance=None), 5, 0)


def test_draws_with_less_signal_have_nearer_centres():
    whole, less = (TrainingFeatures.drawn(WORLD, 40, seed=1, signal=signal) for signal in (1.0, 0.25))
    assert WORLD.base_mean is not None
    center = WORLD.base_mean.mean(0)
    for c in range(C0):
        shift = (less.features[c] - whole.features[c]).numpy()  # the same noise around another centre
        moved = WORLD.base_mean[c] + shift
        np.testing.assert_allclose(moved, np.tile(center + 0.25 * (WORLD.base_mean[c] - center), (40, 1)), atol=1e-4)
    assert torch.equal(whole.base.rows, less.base.rows)
    with pytest.raises(ValueError, match=r"signal must lie in \(0, 1\]; got 0"):
        quick_run(untrained("lwof"), signal=0.0)  # type: ignore[arg-type]


def test_every_part_of_this_checkout_belongs_to_the_feature_file_it_is_named_after():
    folder = Path(__file__).resolve().parents[3] / "benchmarks"
    sets = {path.stem: FeatureSet.load(path).for_linear_scores() for path in (folder / "features").iterdir()}
    rows = {name: torch.tensor(features.base_weight) for name, features in sets.items()}
    for path in (folder / "systems").glob("*.npz"):
        trained = TrainedPart.load(path)
        own = re.sub(r"-\d-shot$", "", path.stem.removeprefix(f"{trained.system}-"))
        others = {name for name in rows if rows[name] is not rows[own] and trained.belongs_to(rows[name])}
        assert trained.belongs_to(rows[own]), path.name
        assert others <= {f"{own}-development"}, path.name  # one network, other novel classes
