"""``subspan sweep`` as a user types it: the best on development data, a kill in the middle, the config in use."""

import json
import subprocess
import sys

import numpy as np
import pytest
from made_up_features import made_up_arrays

from subspan.experiments.config import Config
from subspan.experiments.kept import read_result
from subspan.experiments.orders import with_held_out_classes
from subspan.experiments.single_session import SingleSession
from subspan.features.feature_set import FeatureSet
from subspan.images.splits.drawing import generator
from subspan.learners.registry import create_method
from waiting import wait_until

NOVEL = 10
GRID = ("--try", "gamma=0.01,1,100", "--try", "learning_rate=0.001,0.05", "--hold-out-classes", 6)


def write_file(path, seed=0, base_wnids=None, novel_wnids=None, **meta):
    told = {"meta": meta, "base_wnids": base_wnids, "novel_wnids": novel_wnids}
    return FeatureSet.from_arrays(made_up_arrays(seed, NOVEL, support_images=6) | told).save(path)


@pytest.fixture
def development(tmp_path):
    """A person's own file: enough test images of base classes for support and for five queries."""
    arrays = made_up_arrays(0, NOVEL, support_images=6)
    arrays["base_test"] = np.concatenate([made_up_arrays(0, NOVEL, 6)["base_test"] + 0.1 * i for i in range(3)], axis=1)
    return FeatureSet.from_arrays(arrays).save(tmp_path / "dev.safetensors")


def test_the_best_of_a_grid_is_the_best_of_plain_runs(subspan, development, tmp_path):
    out = tmp_path / "sweep"
    status, output, error = subspan(
        "sweep", development, "--method", "subspace:max_steps=30", *GRID, "--count", 20, "--out", out, "--workers", 1
    )
    assert status == 0, error
    assert "score" in output
    features, scores = with_held_out_classes(FeatureSet.load(development), 6), {}
    for gamma in (0.01, 1.0, 100.0):
        for rate in (0.001, 0.05):
            method = create_method("subspace", max_steps=30, gamma=gamma, learning_rate=rate)
            scores[gamma, rate] = SingleSession(count=20).run(features, method).joint.mean()
    assert len(set(scores.values())) > 1
    config = Config.load(out / "config.json", "single-session")
    (setting,) = config.settings
    assert setting.given == {"max_steps": 30}
    assert (setting.chosen["gamma"], setting.chosen["learning_rate"]) == max(scores, key=lambda key: scores[key])
    at_an_end = {
        name: setting.chosen[name] in ends for name, ends in (("gamma", (0.01, 100)), ("learning_rate", (0.001, 0.05)))
    }
    assert {name: any(f"{name}=" in said for said in config.about["edges"]) for name in at_an_end} == at_an_end
    assert all(said.split(":")[1].split(" is ")[0] in output for said in config.about["edges"])
    reached = [read_result(file).joint.mean() for file in (out / "trials").iterdir()]
    assert sorted(reached) == pytest.approx(sorted(scores.values()))


def test_a_killed_sweep_goes_on_where_it_was(subspan, development, tmp_path):
    out, reference = tmp_path / "sweep", tmp_path / "reference"
    arguments = [
        "sweep",
        development,
        "--method",
        "subspace:max_steps=60",
        *GRID,
        "--count",
        64,
        "--workers",
        1,
        "--out",
    ]
    command = [sys.executable, "-m", "subspan", *map(str, arguments), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    trials = out / "trials"
    wait_until(lambda: len(list(trials.glob("*.safetensors"))) >= 2 or process.poll() is not None)
    assert process.poll() is None, "the sweep ended before it was killed"
    process.kill()
    process.wait()
    before = {file.name: file.stat().st_mtime_ns for file in trials.glob("*.safetensors")}
    assert 2 <= len(before) < 6
    status, _, error = subspan(*arguments, out)
    assert status == 0, error
    after = {file.name: file.stat().st_mtime_ns for file in trials.glob("*.safetensors")}
    assert before.items() <= after.items(), "what was done is neither lost nor done again"
    assert len(after) == 6
    assert subspan(*arguments, reference)[0] == 0
    for name in after:
        one, other = (read_result(folder / "trials" / name) for folder in (out, reference))
        assert one.to_record()["digest"] == other.to_record()["digest"]
    made, whole = (Config.load(path / "config.json", "single-session") for path in (out, reference))
    assert made.settings == whole.settings


def test_sessions_are_swept_on_split_0_and_bench_takes_the_config(subspan, tmp_path):
    keys = [f"n{i:08}" for i in range(21)]
    drawn = [keys[i] for i in generator(0, "classes").permutation(21)]
    split0 = write_file(
        tmp_path / "split0.safetensors", split="random:0", base_wnids=drawn[:11], novel_wnids=drawn[11:]
    )
    arguments = (
        "--protocol",
        "multi-session",
        "--method",
        "subspace:max_steps=20",
        "--method",
        "semantic:max_steps=20",
    )
    status, _, error = subspan(
        "sweep", split0, *arguments, "--try", "gamma=0.01,5", "--draws", 2, "--out", tmp_path / "s", "--workers", 1
    )
    assert status == 0, error
    config = Config.load(tmp_path / "s" / "config.json", "multi-session")
    assert [setting.method for setting in config.settings] == ["subspace", "semantic"]
    assert config.settings[1].embeddings == "words"
    reported = write_file(tmp_path / "split1.safetensors", 1, split="random:1")
    written = tmp_path / "r.json"
    status, _, error = subspan(
        "bench", reported, "--config", tmp_path / "s" / "config.json", "--no-memory", "--json", written, "--workers", 1
    )
    assert status == 0, error
    found = [create_method(one["method"]) for one in json.loads(written.read_text())]
    assert found == [setting.create() for setting in config.settings]
    assert "was swept on" not in error
    status, _, error = subspan(
        "bench", split0, "--config", tmp_path / "s" / "config.json", "--no-memory", "--workers", 1
    )
    assert (status, "settings were chosen on split0.safetensors, which was swept on" in error) == (0, True)


@pytest.mark.parametrize(
    ("meta", "arguments", "sentence"),
    [
        (
            {"split": "ravi", "contents": {"novel": "novel"}},
            (),
            "no table reports; this file is of ravi. On any file --hold-out",
        ),
        ({}, (), "episodes needs the development classes"),
        (
            {"split": "random:1"},
            ("--protocol", "multi-session"),
            "needs the development split random:0, which no table reports; this file is of random:1. On any file",
        ),
        (
            {
                "split": "random:0",
                "base_wnids": [f"b{i}" for i in range(11)],
                "novel_wnids": [f"n{i}" for i in range(10)],
            },
            ("--protocol", "multi-session"),
            "this file is of random:0 by what it says, but holds other classes",
        ),
        ({"split": "ravi", "contents": {"novel": "development"}}, (), "by what it says, but holds other classes"),
        ({}, ("--hold-out-classes", 10), "must leave 2 of 11 base classes; got 10"),
        ({}, ("--protocol", "other"), "protocol must be one of multi-session, single-session; got 'other'"),
        ({}, ("--config", "x"), "name the methods to search with --method, or settings to start from with --config"),
    ],
)
def test_only_development_data_is_searched(subspan, tmp_path, meta, arguments, sentence):
    path = write_file(tmp_path / "f.safetensors", **meta)
    status, _, error = subspan(
        "sweep", path, "--method", "subspace", "--try", "gamma=1", "--out", tmp_path / "s", *arguments
    )
    assert status == 2
    assert sentence in error
    assert not (tmp_path / "s").exists()


def test_a_damaged_trial_is_named(subspan, development, tmp_path):
    out = tmp_path / "sweep"
    methods = ("--method", "subspace:max_steps=1", "--try", "gamma=1", *GRID[-2:])
    arguments = ("sweep", development, *methods, "--count", 5, "--out", out, "--workers", 1)
    assert subspan(*arguments)[0] == 0
    (file, *_) = (out / "trials").iterdir()
    file.write_text("no trial\n")
    status, _, error = subspan(*arguments)
    assert (status, f"{file.name}' is no readable safetensors file" in error) == (2, True)
