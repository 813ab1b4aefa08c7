"""``subspan serve`` as a process of its own: it starts, says where, answers, and ends when told to."""

import os
import re
import signal
import socket
import subprocess
import sys
import warnings
from pathlib import Path

import httpx2
import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.cli import main


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    network = f"onnx:{made.write_onnx(folder / 'tiny.onnx')}"
    photographs = {name: made.photographs(name, 30) for name in ("red", "green", "blue")}
    Catalogue.create(folder / "c.subspan", photographs, CatalogueOptions(backbone=network))
    return folder / "c.subspan"


def test_it_starts_says_where_answers_and_ends(catalogue: Path):
    process = subprocess.Popen(
        [sys.executable, "-m", "subspan", "serve", str(catalogue), "--trust", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines[0] == f"{catalogue}: 3 classes, network onnx:{catalogue.parent / 'tiny.onnx'}.\n"
        found = re.fullmatch(r"Page: (http://127\.0\.0\.1:\d+/)#token=(\S{32,})\n", lines[1])
        assert found
        address, token = found.groups()
        assert lines[2] == f"Token, shown only now: {token}\n"
        assert httpx2.get(address + "healthz").json()["classes"] == 3
        images = [("images", ("a.png", made.encoded(pixels), "image/png")) for pixels in made.photographs("pink", 4)]
        assert httpx2.post(address + "classes", data={"name": "pink"}, files=images).status_code == 401
        write = {"Authorization": f"Bearer {token}"}
        assert httpx2.post(address + "classes", data={"name": "pink"}, files=images, headers=write).status_code == 201
        assert [one.name for one in Catalogue.open(catalogue).classes()] == ["blue", "green", "red", "pink"]
        last = httpx2.get(address + "sessions").json()["sessions"][-1]["version"]
        assert httpx2.post(address + "undo", json={"version": last}, headers=write).status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert (out, err) == ("", "")
    assert process.returncode in (0, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["CATALOGUE"], "where you trust whoever made it, say --trust"),
        (["CATALOGUE", "--trust", "--port", "TAKEN"], "cannot listen on 127.0.0.1, port TAKEN: Address already in use"),
        (["CATALOGUE", "--trust", "--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid, port "),
        (["nowhere.subspan"], "there is nothing there"),
        (["CATALOGUE", "--token-file", "nowhere"], "'nowhere': No such file or directory"),
        (["CATALOGUE", "--token-file", "short"], "'short': a token must have at least 16 characters"),
        (["CATALOGUE", "--rate", "0"], "rate must be positive; got 0.0"),
        (["CATALOGUE", "--workers", "-1"], "workers must be at least 0; got -1"),
    ],
)
def test_what_keeps_it_from_starting_is_one_sentence(
    catalogue: Path, tmp_path: Path, monkeypatch, capsys, arguments: list[str], sentence: str
):
    monkeypatch.chdir(tmp_path)
    Path("short").write_text("short")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # main replaces it
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"CATALOGUE": str(catalogue), "TAKEN": str(taken.getsockname()[1])}
        monkeypatch.setattr(sys, "argv", ["subspan", "serve", *(places.get(one, one) for one in arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert sentence.replace("TAKEN", places["TAKEN"]) in err
