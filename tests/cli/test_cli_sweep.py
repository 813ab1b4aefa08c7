"""``subspan sweep`` as a user types it: the best on development data, a kill in the middle, the config in use."""

import json
import subprocess
import sys

import pytest
from made_up_features import made_up_arrays

from subspan.experiments.config import Config
from subspan.experiments.single_session import SingleSession
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import create_method
from waiting import wait_until

NOVEL = 10
GRID = ("--try", "gamma=0.01,1,100", "--try", "learning_rate=0.001,0.05")


def write_file(path, seed=0, **meta):
    return FeatureSet.from_arrays(made_up_arrays(seed, NOVEL, support_images=6) | {"meta": meta}).save(path)


@pytest.fixture
def development(tmp_path):
    arrays = made_up_arrays(0, NOVEL, support_images=6)
    arrays["novel_test"] = arrays["novel_test"].repeat(2, axis=1)  # five queries a class
    arrays["meta"] = {"split": "ravi", "contents": {"novel": "development"}}
    return FeatureSet.from_arrays(arrays).save(tmp_path / "dev.safetensors")


def test_the_best_of_a_grid_is_the_best_of_plain_runs(subspan, development, tmp_path):
    out = tmp_path / "sweep"
    status, output, error = subspan(
        "sweep", development, "--method", "subspace:max_steps=30", *GRID, "--count", 20, "--out", out, "--workers", 1
    )
    assert status == 0, error
    assert "score" in output
    features, scores = FeatureSet.load(development), {}
    for gamma in (0.01, 1.0, 100.0):
        for rate in (0.001, 0.05):
            method = create_method("subspace", max_steps=30, gamma=gamma, learning_rate=rate)
            scores[gamma, rate] = SingleSession(count=20).run(features, method).joint.mean()
    assert len(set(scores.values())) > 1
    (setting,) = Config.load(out / "config.json", "single-session").settings
    assert setting.given == {"max_steps": 30}
    assert (setting.chosen["gamma"], setting.chosen["learning_rate"]) == max(scores, key=lambda key: scores[key])
    lines = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
    assert sorted(line["score"] for line in lines) == pytest.approx(sorted(scores.values()))


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
    log = out / "trials.jsonl"
    wait_until(lambda: (log.is_file() and log.read_text().count("\n") >= 2) or process.poll() is not None)
    assert process.poll() is None, "the sweep ended before it was killed"
    process.kill()
    process.wait()
    before = log.read_text()
    assert 2 <= before.count("\n") < 6
    with log.open("a") as file:
        file.write('{"key": "cut sh')  # as a kill in the middle of writing leaves it
    status, _, error = subspan(*arguments, out)
    assert status == 0, error
    after = log.read_text()
    assert after.startswith(before), "what was done is neither lost nor done again"
    assert after.count("\n") == 6
    assert subspan(*arguments, reference)[0] == 0
    assert sorted(after.splitlines()) == sorted((reference / "trials.jsonl").read_text().splitlines())
    made, whole = (Config.load(path / "config.json", "single-session") for path in (out, reference))
    assert made.settings == whole.settings


def test_sessions_are_swept_on_split_0_and_bench_takes_the_config(subspan, tmp_path):
    split0 = write_file(tmp_path / "split0.safetensors", split="random:0")
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


@pytest.mark.parametrize(
    ("meta", "arguments", "sentence"),
    [
        ({"split": "ravi", "contents": {"novel": "novel"}}, (), "needs the development classes; this file is of ravi"),
        ({}, (), "needs the development classes; this file is of unknown data"),
        (
            {"split": "random:1"},
            ("--protocol", "multi-session"),
            "needs the development split random:0, which no table reports; this file is of random:1",
        ),
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


def test_a_damaged_log_is_named(subspan, development, tmp_path):
    out = tmp_path / "sweep"
    out.mkdir()
    (out / "trials.jsonl").write_text("no trial\n")
    status, _, error = subspan("sweep", development, "--method", "subspace", "--try", "gamma=1", "--out", out)
    assert status == 2
    assert "is damaged in 'no trial" in error
