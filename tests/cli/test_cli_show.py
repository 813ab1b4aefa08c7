"""``subspan show`` and ``subspan run``, and what ``bench`` leaves for them, as a user types them."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from made_up_features import BASE_COUNT, made_up_arrays


@pytest.fixture
def split(tmp_path):
    arrays = made_up_arrays(0, 6, support_images=5)
    arrays |= {"base_names": [f"base {i}" for i in range(BASE_COUNT)], "novel_names": [f"novel {i}" for i in range(6)]}
    np.savez(tmp_path / "split.npz", **arrays)
    return tmp_path / "split.npz"


TWO = ("--method", "prototype", "--method", "imprint")
QUICK = (*TWO, "--shots", 2, "--ways", 3, "--workers", 1)


@pytest.mark.parametrize("protocol", ["multi-session", "single-session"])
def test_show_prints_what_bench_printed(subspan, split, tmp_path, protocol):
    more = (
        ("--no-memory",) if protocol == "multi-session" else ("--count", 30, "--base-queries", 6, "--novel-queries", 6)
    )
    told = ("--against", "prototype", "--csv", tmp_path / "long.csv")
    arguments = ("bench", split, "--protocol", protocol, *QUICK, *more, *told, "--json", tmp_path / "run.json")
    status, printed, error = subspan(*arguments)
    assert status == 0, error
    split.unlink()
    long = (tmp_path / "long.csv").read_text()
    status, again, _ = subspan("show", tmp_path / "run.json", *told)
    assert (status, again) == (0, printed)
    assert (tmp_path / "long.csv").read_text() == long
    (one, _) = json.loads((tmp_path / "run.json").read_text())
    assert one["run"]["settings"]["shots"] == 2
    assert one["run"]["command"].startswith("subspan bench ")
    assert [file["name"] for file in one["run"]["files"]] == ["split.npz"]
    assert {"title", "device", "date", "versions", "version", "placement"} <= one["run"].keys()
    other = json.dumps([one | {"protocol": "another"}])
    (tmp_path / "other.json").write_text(other)
    status, _, error = subspan("show", tmp_path / "run.json", tmp_path / "other.json")
    assert (status, "results of one table are of one protocol" in error) == (2, True)
    rows = pd.read_csv(tmp_path / "long.csv")
    mean = rows[(rows.method == "prototype") & (rows.session == rows.session.max())]
    figure = "weighted" if protocol == "multi-session" else "joint"
    assert mean[figure].mean() == pytest.approx(one[figure][-1] if protocol == "multi-session" else one[figure])


def test_options_of_the_other_protocol_are_refused(subspan, split):
    for words, sentence in (
        (("--protocol", "single-session", "--draws", 3), "the single-session protocol has no --draws"),
        (("--protocol", "single-session", "--memory"), "the single-session protocol has no --memory"),
        (("--count", 3), "the multi-session protocol has no --count"),
        (("--protocol", "other"), "--protocol must be one of multi-session, single-session; got 'other'"),
        (("--order", split.with_name("none.txt")), "No such file"),
    ):
        status, _, error = subspan("bench", split, *QUICK, *words)
        assert (status, sentence in error) == (2, True), error


def test_confusions_of_any_split_by_name(subspan, split, tmp_path):
    other = made_up_arrays(1, 6, support_images=5)
    other["base_test"] = np.concatenate([other["base_test"], other["base_test"]], axis=1)  # another number of images
    np.savez(tmp_path / "other.npz", **other)
    path = tmp_path / "p.csv.gz"
    status, _, error = subspan(
        "bench", split, tmp_path / "other.npz", *QUICK, "--no-memory", "--draws", 2, "--predictions", path
    )
    assert status == 0, error
    frame = pd.read_csv(path)
    assert set(frame[frame.split == 0].true_name) == {f"base {i}" for i in range(11)} | {f"novel {i}" for i in range(6)}
    own = frame[(frame.split == 1) & (frame.method == "imprint") & (frame.session == 2)]
    assert own.item.nunique() == 11 * 8 + 6 * 4
    where = ("--where", "method=imprint", "--where", "split=1")
    status, out, error = subspan("show", path, *where, "--csv", tmp_path / "c.csv")
    assert status == 0, error
    assert f"{(own.true == own.predicted).sum()} of {len(own)} right" in out
    with (tmp_path / "c.csv").open() as file:
        counts = {
            (row["true_name"], name): int(row[name])
            for row in csv.DictReader(file)
            for name in row
            if name[:5] == "class"
        }
    expected = own.groupby(["true_name", "predicted_name"]).size()
    assert {pair: count for pair, count in counts.items() if count} == expected.to_dict()
    for words, sentence in (
        (("--where", "a=1"), "--where reads COLUMN=VALUE"),
        ((), "of one method and memory setting"),
    ):
        status, _, error = subspan("show", path, *words)
        assert (status, sentence in error) == (2, True), error


def test_a_file_does_what_its_flags_do_and_goes_on_where_it_stopped(subspan, split, tmp_path):
    out = tmp_path / "of-flags.json"
    method = "subspace:max_steps=5,gamma=2"
    flags = ("--sessions", "2,3", "--order-seed", 1, "--draws", 2, "--shots", 2)
    arguments = ("--method", method, "--method", "prototype", *flags, "--no-memory", "--workers", 1, "--json", out)
    status, _, error = subspan("bench", split, *arguments)
    assert status == 0, error
    file = tmp_path / "experiment.toml"
    file.write_text(
        f"""
        [[bench]]
        arguments = ["{split}"]
        method = [{{name = "subspace", max_steps = 5, gamma = 2}}]
        sessions = [2, 3]
        order-seed = 1
        draws = 2
        shots = 2
        memory = false
        json = "{tmp_path / "of-file.json"}"
        """
    )
    assert subspan("run", file, "--workers", 1)[0] == 0
    (kept,) = (tmp_path / "experiment").rglob("*.safetensors")
    before = kept.stat().st_mtime_ns
    file.write_text(file.read_text().replace("}]", '}, "prototype"]'))  # as if it had been stopped after the first
    assert subspan("run", file, "--workers", 1)[0] == 0
    assert kept.stat().st_mtime_ns == before, "what was done is not done again"
    assert len(list((tmp_path / "experiment").rglob("*.safetensors"))) == 2
    by_flags, by_file = (json.loads(path.read_text()) for path in (out, tmp_path / "of-file.json"))
    assert [one["digest"] for one in by_file] == [one["digest"] for one in by_flags]
    assert by_file[0]["method"] == method.replace("max_steps=5,gamma=2", "gamma=2,max_steps=5")


def test_the_example_chooses_on_base_classes_and_runs_on_the_novel_ones(subspan, split, monkeypatch):
    monkeypatch.chdir(split.parent)
    arrays = dict(np.load(split))
    arrays["base_test"] = np.concatenate([arrays["base_test"]] * 3, axis=1)  # support of 5 shots, and queries
    np.savez("mine.npz", **arrays)
    example = Path(__file__).parents[2] / "examples" / "experiment.toml"
    (split.parent / "experiment.toml").write_text(example.read_text())
    status, _, error = subspan("run", "experiment.toml", "--workers", 1)
    assert status == 0, error
    assert "subspan sweep --workers 1 --protocol multi-session" in error
    assert "with the test images of 5 of its base classes" in error
    results = json.loads(Path("results.json").read_text())
    assert {tuple(one["class_counts"]) for one in results} == {(11, 14, 16)}
    assert results[0]["per_draw"]["order"] == sorted(results[0]["per_draw"]["order"])
    assert results[0]["run"]["command"] == "subspan run experiment.toml --workers 1"


WHOLE = """
[train]
data = "mini-imagenet"
split = ["random:1"]
epochs = 2
set = ["momentum=0.8"]
out = "nowhere/random-1"

[[bench]]
arguments = ["random-1.npz"]
method = ["prototype", {name = "semantic", tau = 2.0}]
memory = false
json = "a.json"

[pack]
run = "nowhere/random-1"
data = "mini-imagenet"
out = "random-1.npz"
"""


def test_training_and_tables_are_commands_in_their_order(subspan, tmp_path):
    (tmp_path / "whole.toml").write_text(WHOLE)
    status, _, error = subspan("run", tmp_path / "whole.toml", "--dry", "--ray", "--workers", 3)
    assert (status, error.splitlines()) == (0, [
        "subspan train --data mini-imagenet --split random:1 --epochs 2 --set momentum=0.8 --out nowhere/random-1",
        "subspan pack --run nowhere/random-1 --data mini-imagenet --out random-1.npz",
        f"subspan bench --keep {tmp_path}/whole/bench-0 --ray --workers 3 --method prototype "
        "--method semantic:tau=2.0 --no-memory --json a.json random-1.npz",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[bench", "is no experiment in TOML"),
        ("", "is empty"),
        ("[other]", "has 'other'; an experiment has tables of train"),
        ("bench = 1", "must be a table [bench] of options"),
        ("[bench]\nshot = 1", "`subspan bench` has no option --shot"),
    ],
)
def test_what_is_no_experiment_is_named(subspan, tmp_path, text, sentence):
    (tmp_path / "e.toml").write_text(text)
    status, _, error = subspan("run", tmp_path / "e.toml")
    assert (status, sentence in error) == (2, True), error
