"""``subspan compare`` on class folders of small pictures and on files of features."""

import json
from pathlib import Path

import numpy as np
import pytest

import made_photographs as made
from subspan.experiments.compare.ways import kinds

WAYS = [word for name in ("subspan", "ridge", "centroid") for word in ("--method", name)]


@pytest.fixture
def network(tmp_path: Path) -> str:
    return f"onnx:{made.write_onnx(tmp_path / 'tiny.onnx')}"


def test_a_folder_of_photographs_and_its_kept_features(tmp_path: Path, subspan, network: str):
    photographs = made.write_folders(tmp_path / "photos", dict.fromkeys(made.COLOURS, 12))
    (photographs / "red" / "torn.png").write_bytes(b"no picture")
    kept, first = tmp_path / "kept.npz", tmp_path / "first"
    given = ("--draws", 2, "--ways", 1, "--shots", 3, *WAYS)
    command = ("compare", photographs, "--backbone", network, "--keep-features", kept, "--out", first, *given)
    status, _, error = subspan(*command)
    assert (status, "torn.png" in error) == (2, True)
    status, out, error = subspan(*command, "--skip-bad")
    assert (status, "left out" in error, "torn.png" in error) == (0, True, True)
    assert "photos: 4 base classes, 3 sessions with 3 novel classes" in out
    assert "Best after the last session" in out
    assert {path.name for path in first.iterdir()} >= {
        "report.html",
        "comparison.csv",
        "comparison.png",
        "comparison.json",
    }
    told = json.loads((first / "comparison.json").read_text())
    assert [one["method"] for one in told["ways"]] == ["subspan", "ridge", "centroid"]
    assert np.shape(told["ways"][0]["per_draw"]["accuracy"]) == (2, 4)

    status, _, _ = subspan("compare", kept, "--out", tmp_path / "again", *given)
    again = json.loads((tmp_path / "again" / "comparison.json").read_text())
    assert status == 0
    accuracies = [[one["accuracy"] for one in page["ways"]] for page in (told, again)]
    np.testing.assert_allclose(*accuracies, atol=2)  # half precision may turn an answer


def test_a_file_of_sessions_runs_as_it_is_unless_others_are_asked_for(tmp_path: Path, subspan):
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(4, 20))
    arrays = {}
    for part, classes, count in (("base", (0, 1), 9), ("s01", (2,), 2), ("s02", (3,), 2), ("test", range(4), 5)):
        arrays[f"{part}_X"] = np.concatenate([c + rng.normal(size=(count, 20)) for c in centers[list(classes)]])
        arrays[f"{part}_y"] = np.repeat(list(classes), count)
    np.savez(tmp_path / "sessions.npz", **arrays)
    status, out, _ = subspan("compare", tmp_path / "sessions.npz", "--out", tmp_path / "out", *WAYS)
    assert (status, "2 base classes, 2 sessions with 2 novel classes, 20 to test with" in out) == (0, True)
    assert "One draw: no interval and no test" in out
    again = ("--novel-class", "1", "--shots", 2, "--draws", 2)
    _, _, error = subspan("compare", tmp_path / "sessions.npz", "--out", tmp_path / "out", *WAYS, *again)
    assert error == ""


def test_refusals_come_before_any_work(tmp_path: Path, subspan):
    for words, rule in (
        (("--method", "forest"), "there is no method 'forest'"),
        (("--keep-features", "kept.safetensors"), "features are kept as .npz"),
        (("--shots", "0"), "shots must be at least 1; got 0"),
        ((), "there is nothing at"),
    ):
        status, _, error = subspan("compare", tmp_path / "photos", *words)
        assert (status, rule in error) == (2, True), error


def test_the_help_says_what_each_way_is(subspan):
    _, out, _ = subspan("compare", "--help")
    for name in kinds():
        assert name in out
