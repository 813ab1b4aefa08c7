"""`subspan train --system`: from a feature file to a part that `subspan bench` runs."""

import sys

import pytest
from made_up_world import C0, make_world

from subspan.cli import main
from subspan.learners.training.trained_part import TrainedPart


@pytest.fixture
def subspan(monkeypatch, capsys, tmp_path):
    """Run a command in this process: exit status and what it said, on one line."""
    monkeypatch.setenv("COLUMNS", "400")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["subspan", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, " ".join((captured.out + captured.err).split())

    return call


def test_a_part_is_trained_and_run(subspan, tmp_path):
    features, out = make_world().save(tmp_path / "features.safetensors"), tmp_path / "parts" / "lwof.safetensors"
    train = ("train", "--system", "lwof:shots=2", features, "--out", out, "--device", "cpu", "--draws", 30)
    code, said = subspan(*train, "--steps", 4, "--seed", 3, "--rates", 0.1, "--rate-cuts", "")
    assert code == 0, said
    assert f"part of lwof, trained on drawn features of {C0} classes, 4 steps" in said
    assert f"Run it as lwof:trained={out}" in said
    assert [path.name for path in out.parent.iterdir()] == ["lwof.safetensors"], "no checkpoint is left"
    part = TrainedPart.load(out)
    assert part.options == {"shots": 2, "attention": True, "dropout": 0.0}
    assert {name: part.about[name] for name in ("steps", "seed", "device", "classes")} == {
        "steps": 4,
        "seed": 3,
        "device": "cpu",
        "classes": C0,
    }
    assert part.about["training"]["rates"] == [0.1]
    bench = ("bench", features, "--no-memory", "--ways", 3, "--shots", 2, "--draws", 1, "--workers", 1)
    code, said = subspan(*bench, "--method", f"lwof:trained={out.parent}")
    assert code == 0, said
    assert "lwof: its part was trained on features drawn from a file's statistics" in said
    other = make_world(1).save(tmp_path / "other.safetensors")
    code, said = subspan("bench", other, *bench[2:], "--method", f"lwof:trained={out}")
    assert code == 2
    assert "was trained for other features" in said


def test_wrong_words_are_answered_in_a_sentence(subspan, tmp_path):
    features = make_world().save(tmp_path / "features.safetensors")
    out = ("--out", tmp_path / "part.safetensors")
    for words, message in (
        (("--system", "ncm", features, *out), "'ncm' has no part to train; the systems that have are attractor, cec,"),
        (("--system", "lwof", features), "name it with --out FILE.npz or .safetensors"),
        (("--system", "lwof", *out), "a feature file (draws) or on --run and --data (real features); name one"),
        (("--system", "lwof", "--run", tmp_path, *out), "need its images; name them with --data"),
        (("--system", "lwof", features, "--out", tmp_path / "part.pt"), "written as .safetensors or .npz; got"),
        (("--system", "lwof", features, *out, "--steps", 0), "steps must be at least 1; got 0"),
        (("--system", "lwof", features, *out, "--rates", "1,2"), "2 rates need 1 rate_cuts; got 3"),
        (("--system", "lwof:shots=600", features, *out), "600 shots and 3 queries of a class; one has 500 examples"),
        (
            ("--system", "lwof", features, *out, "--epochs", 7, "--recipe", "paper", "--no-flip"),
            "the training of system 'lwof' on a feature file takes no --recipe, --epochs, --flip",
        ),
        (("--system", "lwof", features, *out, "--data", tmp_path), "on a feature file takes no --data"),
        (("--system", "lwof", features, *out, "--momentum", 0.5), "on a feature file takes no --momentum"),
        (("--system", "lwof", features, *out, "--embeddings", "glove300"), "on a feature file takes no --embeddings"),
        (("--system", "lwof", "--run", tmp_path, *out, "--draws", 3), "'lwof' on a run takes no --draws"),
        (
            ("--system", "topic", features, "--run", tmp_path, "--data", tmp_path, *out, "--split", "folder"),
            "the training of system 'topic' on a run takes no features, --split",
        ),
        ((features,), "name them with --data and their split with --split"),
        (("--data", tmp_path, "--split", "folder", "--steps", 3), "go with --system NAME"),
        (("--data", tmp_path, "--split", "folder", "--embeddings", "glove300"), "go with --system NAME"),
        (
            ("--data", tmp_path, "--split", "folder", "--split", "random:1", "--split", "folder"),
            "split 'folder' is named twice; each has a folder of its own",
        ),
    ):
        code, said = subspan("train", *words, "--device", "cpu")
        assert code == 2, said
        assert message in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["features.safetensors"]
