"""The commands for photographs, as a user types them."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def network(tmp_path: Path) -> str:
    return f"onnx:{made.write_onnx(tmp_path / 'tiny.onnx')}"


@pytest.fixture
def catalogue(tmp_path: Path, subspan, network: str) -> Path:
    photographs = made.write_folders(tmp_path / "photos", {"red": 30, "green": 30, "blue": 30})
    path = tmp_path / "c.subspan"
    status, out, _ = subspan("init", path, photographs, "--backbone", network)
    assert status == 0
    assert "3 classes, method posterior" in out
    assert "% of 90 photographs, each asked of a model that was not taught it" in out
    return path


def test_a_life_of_a_catalogue(catalogue: Path, tmp_path: Path, subspan):
    pink = made.write_folders(tmp_path / "pink", {"pink": 5}, seed=2) / "pink"
    images = sorted(pink.iterdir())
    status, out, _ = subspan("add", catalogue, "--trust", "--class", "pink", *images, "--describe", "a pale red")
    assert status == 0
    assert "Learned pink from 5 photographs (session 1" in out
    assert "on 18 kept examples" in out
    new = made.write_folders(tmp_path / "new", {"grey": 5, "pink": 3}, seed=3)
    status, out, _ = subspan("add", catalogue, "--trust", new, "--json")
    assert [(one["kind"], one["classes"]) for one in json.loads(out)] == [
        ("add_classes", ["grey"]),
        ("add_examples", ["pink"]),
    ]

    _, out, _ = subspan("predict", catalogue, "--trust", pink / "00.png", "--top", 2)
    assert "pink" in out
    _, out, _ = subspan("predict", catalogue, "--trust", pink, "--json")
    answers = json.loads(out)
    assert [Path(one["image"]).name for one in answers] == [f"{i:02d}.png" for i in range(5)]
    assert all(
        abs(sum(c["probability"] for c in one["candidates"]) - 1) < 1e-6 for one in answers
    )  # five classes, top 5

    _, out, _ = subspan("classes", catalogue, "--json")
    assert {one["name"]: one["examples"] for one in json.loads(out)} == {
        "blue": 30,
        "green": 30,
        "red": 30,
        "pink": 8,
        "grey": 5,
    }
    _, out, _ = subspan("log", catalogue)
    assert "added pink" in out
    assert "more of pink" in out
    _, out, _ = subspan("rename", catalogue, "grey", "[ash] grey")
    assert out == "Session 4: grey renamed to [ash] grey.\n"
    _, out, _ = subspan("classes", catalogue)
    assert "[ash] grey" in out
    _, out, _ = subspan("remove", catalogue, "[ash] grey")
    for expected in ("removed [ash] grey", "grey renamed to [ash] grey", "more of pink", "added grey", "added pink"):
        _, out, _ = subspan("undo", catalogue)
        assert expected in out
    status, _, err = subspan("undo", catalogue)
    assert (status, err) == (2, "Error: there is nothing to undo: only one version is left\n")
    assert subspan("prune", catalogue)[1] == "Removed 5 versions.\n"


def test_a_catalogue_of_anybodys_says_what_it_would_load(catalogue: Path, tmp_path: Path, subspan, network: str):
    photos = tmp_path / "photos"
    for arguments in (["predict", photos], ["add", photos], ["evaluate", photos], ["export", "--onnx", tmp_path / "x"]):
        status, out, err = subspan(arguments[0], catalogue, *arguments[1:])
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert f"network '{network}'" in err
        assert "--trust" in err
    assert subspan("classes", catalogue)[0] == subspan("log", catalogue)[0] == 0
    assert subspan("predict", catalogue, photos, "--trust")[0] == 0
    assert subspan("predict", catalogue, photos, "--backbone", network)[0] == 0


def test_evaluate_prints_what_it_measured(catalogue: Path, tmp_path: Path, subspan):
    test = made.write_folders(tmp_path / "test", {"red": 10, "green": 10, "grey": 10}, seed=5)
    confusion = tmp_path / "confusion.csv"
    _, out, _ = subspan("evaluate", catalogue, "--trust", test, "--json", "--confusion", confusion)
    result = json.loads(out)
    _, text, _ = subspan("evaluate", catalogue, "--trust", test)
    assert f"Accuracy: {result['accuracy']:.1f} % on 20 photographs." in text
    assert "10 photographs of classes that the catalogue does not know" in text
    assert "unknown rejected" in text
    table = pd.read_csv(confusion, index_col=0)
    assert table.sum(axis=1).to_dict() == {"green": 10, "red": 10}
    assert {name: table.loc[name, name] for name in ("red", "green")} == {
        one["name"]: one["correct"] for one in result["per_class"]
    }


def test_init_from_weights_needs_no_photographs(tmp_path: Path, subspan, network: str):
    rows = np.random.default_rng(0).normal(size=(12, made.WIDTH)).astype(np.float32)
    bias = 1e3 * np.eye(12, dtype=np.float32)[7]
    save_file({"classifier.weight": rows, "classifier.bias": bias}, tmp_path / "head.safetensors")
    (tmp_path / "names.txt").write_text("\n".join(f"part {i}" for i in range(12)) + "\n")
    common = ("--weights", tmp_path / "head.safetensors", "--names", tmp_path / "names.txt", "--backbone", network)
    status, out, _ = subspan("init", tmp_path / "w.subspan", *common)
    assert status == 0
    assert "12 classes, method subspace" in out
    assert "No photograph could be asked about" in out
    photographs = made.write_folders(tmp_path / "new", {"pink": 5})
    _, out, _ = subspan("predict", tmp_path / "w.subspan", photographs, "--trust", "--json")
    assert {one["name"] for one in json.loads(out)} == {"part 7"}, "the bias counts"
    _, out, _ = subspan("add", tmp_path / "w.subspan", photographs, "--trust")
    assert "what this cost them is unknown" in out
    _, out, _ = subspan("classes", tmp_path / "w.subspan", "--json")
    assert [one["name"] for one in json.loads(out)] == [*(f"part {i}" for i in range(12)), "pink"]
    for names, message in (
        ("nowhere.txt", r"nowhere.txt': No such file"),
        ("head.safetensors", "must be text with one"),
    ):
        _, _, err = subspan("init", tmp_path / "x.subspan", *common[:3], tmp_path / names, "--backbone", network)
        assert re.search(message, err)
        assert not (tmp_path / "x.subspan").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["init", "new.subspan"], "either a FOLDER of photographs or --weights"),
        (["init", "new.subspan", "--weights", "nowhere.safetensors", "--names", "n.txt"], "nowhere.safetensors"),
        (["init", "new.subspan", "nowhere"], "there is nothing at nowhere"),
        (["init", "new.subspan", ".", "--names", "n.txt"], "belong to --weights"),
        (["init", "CATALOGUE", "PHOTOS"], "exists already"),
        (["add", "CATALOGUE", "nowhere"], "there is nothing at nowhere"),
        (["add", "CATALOGUE", "x.png", "--class", "pink", "--trust"], "image x.png cannot be read"),
        (["add", "CATALOGUE", "x", "--describe", "pale"], "--describe belongs to --class"),
        (["add", "CATALOGUE", "x.png", "--class", " "], "not empty"),
        (["predict", "CATALOGUE", "nothing"], "there is nothing at nothing"),
        (["predict", "nowhere.subspan", "x.png"], "is not a Subspan store: there is nothing there"),
        (["predict", "CATALOGUE", "x.png", "--backbone", "efficientnet-lite0"], "other weights|x.png cannot be read"),
        (["predict", "CATALOGUE", "x.png", "--reject", "--reject-share", "0.001"], "needs at least 999 photographs"),
        (["rename", "CATALOGUE", "red", "green"], "class 'green' exists already"),
        (["remove", "CATALOGUE", "nobody"], "class 'nobody' is not known"),
        (["export", "CATALOGUE", "--onnx", ".", "--trust"], "is a folder; name the file"),
        (["evaluate", "CATALOGUE", "PHOTOS", "--confusion", "."], "is a folder; name the file"),
        (["add", "CATALOGUE", "PHOTOS", "--warn-drop", "-1"], "warn_drop must not be negative; got -1"),
        (["prune", "CATALOGUE", "--keep", "0"], "at least the current version"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(catalogue, subspan, monkeypatch, tmp_path, arguments, message):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    before = {file: file.read_bytes() for file in catalogue.rglob("*") if file.is_file()}
    places = {"CATALOGUE": catalogue, "PHOTOS": tmp_path / "photos"}
    status, out, err = subspan(*[places.get(one, one) for one in arguments])
    assert (status, out) == (2, "")
    assert re.search(message, err)
    assert err.count("\n") == 1
    assert {file: file.read_bytes() for file in catalogue.rglob("*") if file.is_file()} == before
    assert list(empty.iterdir()) == []


def test_a_language_method_learns_with_descriptions(tmp_path: Path, subspan, network: str, monkeypatch):
    """With a stand-in for sentence-transformers that embeds a text by the colours it speaks of."""
    read: list[str] = []

    class SentenceTransformer:
        def __init__(self, model, device=None):
            pass

        def encode(self, texts, show_progress_bar=None):
            read.extend(texts)
            return np.array([[float(word in text) + 0.1 for word in ("red", "leaf", "sky")] for text in texts])

    module = ModuleType("sentence_transformers")
    vars(module)["SentenceTransformer"] = SentenceTransformer
    photographs = made.write_folders(tmp_path / "photos", {"red": 20, "green": 20, "blue": 20})
    (tmp_path / "said.json").write_text(json.dumps({"green": "like a leaf", "blue": "like the sky"}))
    path = tmp_path / "c.subspan"
    begin = ["init", path, photographs, "--backbone", network, "--method", "semantic"]
    _, _, err = subspan(*begin)
    assert "uses language; name its source" in err
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    _, _, err = subspan(*begin, "--embeddings", "description")
    assert "pip install 'subspan[language]'" in err
    assert not path.exists()
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    status, out, _ = subspan(*begin, "--embeddings", "description", "--descriptions", tmp_path / "said.json")
    assert status == 0
    assert "3 classes, method semantic" in out
    assert read == ["like the sky", "like a leaf", "red"]  # a name where nothing was said
    pink = made.write_folders(tmp_path / "pink", {"pink": 5}, seed=2) / "pink"
    status, _, _ = subspan("add", path, "--trust", "--class", "pink", pink, "--describe", "a pale red")
    assert status == 0
    assert read[3:] == ["a pale red"]
    _, out, _ = subspan("classes", path, "--json")
    assert [one["description"] for one in json.loads(out)] == ["like the sky", "like a leaf", None, "a pale red"]

    def nearness() -> float:  # of the rows of pink and red
        rows = Catalogue.open(path)._snapshot.classifier.coef_
        return float(np.corrcoef(rows[3], rows[2])[0, 1])

    as_red = nearness()
    subspan("undo", path)
    subspan("add", path, "--trust", "--class", "pink", pink, "--describe", "like the sky")
    assert as_red > nearness() + 0.1  # what is said decides where the new row is drawn to


def test_the_log_fits_a_narrow_terminal(catalogue: Path, tmp_path: Path, subspan, monkeypatch):
    names = {"pink": 3, "grey": 3, "brown": 3}
    subspan("add", catalogue, "--trust", made.write_folders(tmp_path / "new", names))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    _, out, _ = subspan("log", catalogue)
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", line) for line in lines if line[:1].isdigit())


def test_bad_photographs_are_left_out_only_when_asked(catalogue: Path, tmp_path: Path, subspan):
    folder = made.write_folders(tmp_path / "new", {"pink": 4})
    (folder / "pink" / "broken.jpg").write_bytes(b"not a photograph")
    status, _, err = subspan("add", catalogue, "--trust", folder)
    assert status == 2
    assert "broken.jpg is not in a format that Pillow knows" in err
    status, out, _ = subspan("add", catalogue, "--trust", folder, "--skip-bad")
    assert status == 0
    assert "from 4 photographs" in out
    assert "Left out: image pink/broken.jpg" in out


@pytest.mark.parametrize("as_json", [False, True])
def test_predict_answers_for_what_can_be_read_and_names_the_rest(catalogue: Path, tmp_path: Path, subspan, as_json):
    inbox = made.write_folders(tmp_path / "inbox", {"red": 3, "blue": 2})
    (inbox / "blue" / "00b.jpg").write_bytes(b"not a photograph")
    (inbox / "red" / "01.png").write_bytes((inbox / "red" / "00.png").read_bytes()[:60])
    missing = tmp_path / "nowhere.jpg"
    flag = ["--json"] if as_json else []
    status, out, err = subspan("predict", catalogue, "--trust", inbox, missing, *flag)
    assert status == 2
    lines = err.splitlines()
    assert [line.partition("inbox/")[2].partition(" ")[0] for line in lines[:2]] == ["blue/00b.jpg", "red/01.png"]
    assert all(line.startswith("Error: image ") for line in lines[:3])
    assert f"{missing} cannot be read" in lines[2]
    assert lines[3:] == ["4 answers: 2 blue, 2 red, 3 could not be read."]
    expected = {"blue/00.png": "blue", "blue/01.png": "blue", "red/00.png": "red", "red/02.png": "red"}
    if as_json:
        assert {one["image"].partition("inbox/")[2]: one["name"] for one in json.loads(out)} == expected
    else:
        assert all(name in out for name in expected)
        assert "00b.jpg" not in out
    status, out, err = subspan("predict", catalogue, "--trust", missing, *flag)
    assert (status, out.strip(), err.count("\n")) == (2, "[]" if as_json else "", 1)


def test_what_is_not_read_is_said(tmp_path: Path, subspan, network: str, catalogue: Path, monkeypatch):
    monkeypatch.setattr("subspan.images.classfiles.IMAGE_SUFFIXES", frozenset({".png"}))  # whatever is installed here
    monkeypatch.setattr("subspan.images.classfiles.HEIF", False)
    photographs = made.write_folders(tmp_path / "mixed", {"red": 10, "green": 10})
    for name in ("IMG_1.HEIC", "IMG_2.heic", "b.avif", "notes.txt", ".DS_Store"):
        (photographs / "green" / name).write_bytes(b"what nobody here can read")
    (photographs / "empty").mkdir()
    (photographs / "phone").mkdir()
    (photographs / "phone" / "IMG_3.heic").write_bytes(b"likewise")
    (photographs / "classes.txt").write_text("a list")  # beside the data, where lists of classes are looked for
    status, _, err = subspan("init", tmp_path / "m.subspan", photographs, "--backbone", network)
    assert status == 0
    assert err == (
        f"Warning: {photographs} holds what is not read: 3 .heic (as green/IMG_1.HEIC); 1 .avif (as green/b.avif); "
        "1 .txt (as green/notes.txt); no image in empty/, phone/; pip install pillow-heif reads HEIC\n"
    )
    status, out, err = subspan("predict", catalogue, "--trust", photographs, "--json")
    assert (status, len(json.loads(out))) == (0, 20)
    assert "3 .heic" in err
    for command in (["predict", catalogue, "--trust"], ["init", tmp_path / "n.subspan"]):
        status, _, err = subspan(*command, photographs / "phone")
        assert status == 2
        assert re.search(r"phone holds no (images|photographs) but 1 \.heic \(as IMG_3\.heic\)", err)


@pytest.mark.parametrize("given", [["new"], ["new/birds", "new/fish"]])
def test_two_folders_of_one_name_are_no_class(catalogue: Path, tmp_path: Path, subspan, given: list[str]):
    for above in ("birds", "fish"):
        made.write_folders(tmp_path / "new" / above, {"pink": 2})
    before = subspan("classes", catalogue)[1]
    status, _, err = subspan("add", catalogue, "--trust", *(tmp_path / one for one in given))
    assert status == 2
    assert re.search(r"the folders \S*birds/pink and \S*fish/pink .*would be one class 'pink'", err)
    assert subspan("classes", catalogue)[1] == before


def test_photographs_that_look_mislabelled_are_named_before_they_are_learned(
    catalogue: Path, tmp_path: Path, subspan, monkeypatch
):
    new = made.write_folders(tmp_path / "new", {"pink": 6}, seed=2)
    green = made.write_folders(tmp_path / "green", {"green": 1}, seed=5) / "green" / "00.png"
    green.rename(new / "pink" / "06.png")
    named = "photographs look mislabelled: pink/06.png is said to show 'pink' and looks like 'green'"
    status, out, err = subspan("add", catalogue, "--trust", "--careful", new)
    assert (status, out, err) == (2, "", f"Error: nothing was learned, since {named}\n")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    status, out, err = subspan("add", catalogue, "--trust", new)
    assert (status, out, err) == (2, "", f"Warning: {named}\nError: nothing was learned, since {named}\n")
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    status, out, err = subspan(
        "add", catalogue, "--trust", new
    )  # a script, which nobody answers, is not stopped either
    assert (status, err) == (0, f"Warning: {named}\n")
    assert "Learned pink from 7 photographs (session 1" in out
    assert subspan("undo", catalogue)[0] == 0
    assert subspan("add", catalogue, "--trust", "--anyway", new)[2] == ""
