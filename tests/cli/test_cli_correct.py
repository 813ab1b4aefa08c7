"""Long lists of photographs, doubtful ones, and putting right what was taught: on the command line."""

import csv
import json
import shutil
from pathlib import Path

import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.cli import visible


@pytest.fixture
def network(tmp_path: Path) -> str:
    return f"onnx:{made.write_onnx(tmp_path / 'tiny.onnx')}"


@pytest.fixture
def catalogue(tmp_path: Path, subspan, network: str) -> Path:
    photographs = made.write_folders(tmp_path / "photos", {"red": 30, "green": 30, "blue": 30})
    assert subspan("init", tmp_path / "c.subspan", photographs, "--backbone", network)[0] == 0
    return tmp_path / "c.subspan"


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_answers_are_written_as_they_come_and_gone_on_with(
    catalogue: Path, tmp_path: Path, subspan, monkeypatch, suffix: str
):
    inbox = made.write_folders(tmp_path / "inbox", {"red": 50, "blue": 50})
    (inbox / "blue" / "07b.png").write_bytes(b"not a photograph")
    arguments = ["predict", catalogue, inbox, "--trust", "--top", 2, f"--{suffix[1:]}"]
    whole, file = tmp_path / f"whole{suffix}", tmp_path / f"out{suffix}"
    status, out, err = subspan(*arguments, whole)
    assert (status, out) == (2, "")
    assert err.splitlines()[-1].startswith("100 answers: 50 ")

    stream = Catalogue.stream

    def interrupted(*given, **more):
        for number, answer in enumerate(stream(*given, **more)):
            if number == 40:
                raise KeyboardInterrupt
            yield answer

    monkeypatch.setattr(Catalogue, "stream", interrupted)
    status, _, err = subspan(*arguments, file)
    assert status == 130
    assert "39 answers:" in err
    monkeypatch.setattr(Catalogue, "stream", stream)
    lines = whole.read_text().splitlines(keepends=True)
    done = lines[: 40 + (suffix == ".csv")]
    assert file.read_text() == "".join(done)
    file.write_text("".join(done) + lines[len(done)][:9])  # killed within a line
    assert "40 answered before" in subspan(*arguments, file, "--resume")[2]
    assert file.read_bytes() == whole.read_bytes()
    assert subspan(*arguments, file, "--resume")[0] == 0, "nothing is left to do"
    assert file.read_bytes() == whole.read_bytes()
    if suffix == ".csv":
        rows = rows_of(file)
        assert [Path(row["image"]).parent.name for row in rows] == ["blue"] * 51 + ["red"] * 50
        assert sum(Path(row["image"]).parent.name == row["answer"] for row in rows) > 95
        assert [row["image"] for row in rows if row["error"]] == [str(inbox / "blue" / "07b.png")]
        assert "has other columns" in subspan(*arguments[:-2], 3, "--csv", file, "--resume")[2]


def test_text_is_neither_wrapped_nor_cut_where_nobody_looks(catalogue: Path, tmp_path: Path, subspan, monkeypatch):
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    made.write_folders(deep, {"red": 70})
    monkeypatch.setenv("COLUMNS", "40")
    status, out, err = subspan("predict", catalogue, "--trust", deep)
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()[1:]] == [str(deep / "red" / f"{i:02d}.png") for i in range(70)]
    assert err.startswith("70 answers: ")


def test_control_characters_never_reach_the_terminal(catalogue: Path, tmp_path: Path, subspan):
    pink = made.write_folders(tmp_path / "new", {"pink": 3}) / "pink"
    (pink / "00.png").rename(pink / "\x1b[2J.png")
    assert subspan("add", catalogue, "--trust", "--class", "pink", pink, "--describe", "pale\x1b[31m\x9bred")[0] == 0
    for command in (["classes", catalogue], ["classes", catalogue, "--json"], ["predict", catalogue, "--trust", pink]):
        _, out, _ = subspan(*command)
        assert not {letter for letter in out if not letter.isprintable()} - {"\n"}
    _, _, err = subspan("predict", catalogue, "--trust", tmp_path / "\x1b[2J")
    assert "\\x1b[2J" in err
    assert visible("a\u202eb\x9b") == "a\\u202eb\\x9b"


def test_bad_photographs_are_all_named_at_once(catalogue: Path, tmp_path: Path, subspan, network: str):
    folder = made.write_folders(tmp_path / "new", {"pink": 4, "grey": 4})
    for name in ("pink/broken.jpg", "grey/empty.png"):
        (folder / name).write_bytes(b"")
    for command in (["add", catalogue], ["evaluate", catalogue], ["init", tmp_path / "n.subspan"], ["review"]):
        trust = ["--backbone", network] if command[0] in ("init", "review") else ["--trust"]
        status, _, err = subspan(*command, folder, *trust)
        assert status == 2
        assert "2 of 10 photographs cannot be read" in err
        assert "--skip-bad" in err
        assert "pink/broken.jpg" in err
        assert "grey/empty.png" in err


def test_names_by_path_and_names_nearly_alike(catalogue: Path, tmp_path: Path, subspan):
    for above in ("birds", "fish"):
        made.write_folders(tmp_path / "new" / above, {"pink": 3})
    status, out, _ = subspan("add", catalogue, "--trust", "--anyway", tmp_path / "new", "--names", "path")
    assert (status, out.split(" from ")[0]) == (0, "Learned birds/pink, fish/pink")
    image = tmp_path / "new" / "fish" / "pink" / "00.png"
    status, _, err = subspan("add", catalogue, "--trust", "--class", "grren", image)
    assert (status, err.count("\n")) == (2, 1)
    assert "'grren' would be new beside 'green'" in err
    assert "say --new" in err
    assert subspan("add", catalogue, "--trust", "--class", "grren", image, "--new", "--anyway")[0] == 0
    assert "did you mean 'grren'?" in subspan("remove", catalogue, "grrenn")[2]
    folder = made.write_folders(tmp_path / "house", {"pink": 3})
    (folder / "pink").rename(folder / "greenn")  # which nobody typed
    status, _, err = subspan("add", catalogue, "--trust", folder, "--anyway")
    assert (status, err.splitlines()[0]) == (0, "Warning: class 'greenn' is new, beside 'green'")


def test_what_was_taught_is_put_right(catalogue: Path, tmp_path: Path, subspan):
    new = made.write_folders(tmp_path / "new", {"pink": 5, "grey": 5})
    assert subspan("add", catalogue, "--trust", "--anyway", new)[0] == 0
    assert subspan("merge", catalogue, "pink", "grey")[1] == "Session 2: grey made part of pink.\n"
    status, out, _ = subspan("unteach", catalogue, "pink", new / "grey" / "00.png", new / "pink" / "01.png", "--trust")
    assert (status, out) == (0, "Session 3: took photographs back from pink.\n")
    assert "was not taught as 'pink'" in subspan("unteach", catalogue, "pink", new / "grey" / "00.png", "--trust")[2]
    log = json.loads(subspan("sessions", catalogue, "--json")[1])
    assert len({entry["author"] for entry in log}) == 1
    counts = {one["name"]: one["examples"] for one in json.loads(subspan("classes", catalogue, "--json")[1])}
    assert counts["pink"] == 8
    assert subspan("undo", catalogue, "--to", log[0]["version"][:8])[1].startswith("Undone: all from session 1, added")
    for kind in ("added grey, pink", "grey made part of pink", "took photographs back from pink"):
        assert kind in subspan("redo", catalogue)[1]
    assert "nothing to redo" in subspan("redo", catalogue)[2]

    backup = tmp_path / "backup.subspan"
    assert subspan("backup", catalogue, backup)[1].endswith("backup.subspan: 4 versions, whole.\n")
    assert subspan("classes", backup, "--json") == subspan("classes", catalogue, "--json")
    assert subspan("verify", catalogue)[0] == 0
    shutil.rmtree(backup / "versions" / log[1]["version"])
    status, out, _ = subspan("verify", backup)
    assert status == 2
    assert [line.partition(": ")[2][:5] for line in out.splitlines()] == ["whole", "versi", "whole", "whole"]


def test_evaluate_names_the_photographs_that_failed(catalogue: Path, tmp_path: Path, subspan):
    test = made.write_folders(tmp_path / "test", {"red": 6, "green": 6}, seed=9)
    (test / "red" / "00.png").rename(test / "green" / "red.png")
    shutil.copy(tmp_path / "photos" / "red" / "00.png", test / "red" / "taught.png")
    status, out, _ = subspan("evaluate", catalogue, test, "--trust", "--wrong", tmp_path / "wrong.csv")
    assert status == 0
    wrong = rows_of(tmp_path / "wrong.csv")
    assert {"photograph": "green/red.png", "name": "green", "answer": "red"}.items() <= wrong[-1].items()
    taught = int("1 photograph of these were taught" in out)
    held_out = {row["photograph"] for row in wrong}
    assert taught or "red/taught.png" not in held_out  # held out or taught


def test_review_finds_what_was_planted(tmp_path: Path, subspan, network: str, catalogue: Path):
    folder = made.write_folders(tmp_path / "review", {"red": 20, "green": 20, "blue": 20}, seed=4)
    (folder / "red" / "00.png").rename(folder / "green" / "zz.png")
    shutil.copy(folder / "blue" / "03.png", folder / "blue" / "yy.png")
    shutil.copy(folder / "blue" / "04.png", folder / "red" / "xx.png")
    page, table = tmp_path / "page.html", tmp_path / "review.csv"
    status, out, _ = subspan("review", folder, "--backbone", network, "--csv", table, "--page", page)
    assert status == 0
    found = {(row["kind"], row["photograph"]) for row in rows_of(table)}
    assert {("mislabelled", "green/zz.png"), ("mislabelled", "red/xx.png")} <= found
    assert {("duplicate", "blue/yy.png"), ("duplicate", "red/xx.png")} <= found
    assert len(found) < 12
    assert "photographs to look at, the worst first:" in out
    assert page.read_text().count('<img src="data:image/jpeg;base64,') == len(found)

    taught = sorted((tmp_path / "photos" / "red").iterdir())
    for file in taught[:10]:  # more than were held out
        shutil.copy(file, folder / "green" / f"r{file.name}")
    status, out, _ = subspan("review", folder, "--catalogue", catalogue, "--trust", "--json")
    says = [one["says"] for one in json.loads(out)["findings"] if one["kind"] == "duplicate"]
    assert says.count("was taught as 'red'") >= 4


def test_a_zip_is_refused_by_the_sizes_it_declares(tmp_path: Path, subspan, network: str, monkeypatch):
    folder = made.write_folders(tmp_path / "photos", {"red": 3, "green": 3})
    (folder / "red" / "large.png").write_bytes(b"\0" * 5000)
    archive = shutil.make_archive(str(tmp_path / "photos"), "zip", folder)
    monkeypatch.setattr("subspan.images.classfiles.LARGEST", 4999)
    status, _, err = subspan("review", archive, "--backbone", network)
    assert status == 2
    assert "red/large.png" in err
    assert "would unpack to 5,000 bytes; at most 4,999 are read" in err
