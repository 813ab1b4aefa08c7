"""The examples that answer with an exported catalogue, or hand answers to other programs, as a user runs them."""

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
RUNTIME = "onnxruntime-web@1.20.1"
NEEDED = ("ort.wasm.min.js", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A catalogue of three colours, its ONNX file, and photographs in class folders that it has not seen."""
    folder = tmp_path_factory.mktemp("exported")
    photographs = {name: made.photographs(name, 30) for name in ("red", "green", "blue")}
    backbone = made.tiny_backbone()
    catalogue, _ = Catalogue.create(folder / "c.subspan", photographs, CatalogueOptions(), backbone=backbone)
    catalogue.export(folder / "catalogue.onnx", made.photographs("green", 3, seed=4))
    made.write_folders(folder / "photos", {"red": 2, "green": 1, "grey": 1}, seed=5)
    return catalogue, folder / "catalogue.onnx", folder / "photos"


def run(script: str, *words) -> str:
    command = [sys.executable, str(EXAMPLES / script), *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def expected(catalogue: Catalogue, files) -> list[tuple[str, float]]:
    answers = catalogue.predict(files, reject=True)
    return [(one.name or "none of these", one.candidates[0].probability) for one in answers]


def test_ten_lines_answer_without_subspan(exported):
    catalogue, file, photographs = exported
    files = sorted(photographs.rglob("*.png"))
    lines = [line.split("\t") for line in run("onnx_answer.py", file, *files).splitlines()]
    assert [line[0] for line in lines] == [str(one) for one in files]
    names, probabilities = zip(*expected(catalogue, files), strict=True)
    assert [line[1] for line in lines] == list(names)
    assert [float(line[2]) for line in lines] == pytest.approx(probabilities, abs=2e-3)


def test_answers_and_labels_go_to_label_studio_and_fiftyone(tmp_path):
    folder = tmp_path / "photos"
    candidates = [{"name": "wren", "probability": 0.75}, {"name": "robin", "probability": 0.25}]
    answers = [
        {"image": f"{folder}/robin/a.jpg", "name": "wren", "candidates": candidates, "rejected": False},
        {"image": f"{folder}/b.two.png", "name": None, "candidates": candidates[:1], "rejected": True},
    ]
    (tmp_path / "answers.json").write_text(json.dumps(answers))
    files = ("--label-studio", tmp_path / "tasks.json", "--fiftyone", tmp_path / "labels.json")
    run("answers_for_others.py", tmp_path / "answers.json", folder, *files, "--labelled")

    def choice(name):
        return {"from_name": "class", "to_name": "image", "type": "choices", "value": {"choices": [name]}}

    assert json.loads((tmp_path / "tasks.json").read_text()) == [
        {
            "data": {"image": "/data/local-files/?d=robin/a.jpg"},
            "predictions": [{"model_version": "subspan", "score": 0.75, "result": [choice("wren")]}],
            "annotations": [{"result": [choice("robin")]}],
        },
        {
            "data": {"image": "/data/local-files/?d=b.two.png"},
            "predictions": [{"model_version": "subspan", "score": 0.75, "result": []}],
        },
    ]
    labelled = {"classes": ["robin", "wren"], "labels": {"robin/a": 0, "b.two": None}}
    assert json.loads((tmp_path / "labels.json").read_text()) == labelled
    run("answers_for_others.py", tmp_path / "answers.json", folder, *files)
    assert json.loads((tmp_path / "labels.json").read_text())["labels"] == {"robin/a": 1, "b.two": None}


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here; `make test-slow` installs Debian's")
def test_the_browser_answers_as_the_catalogue_does(exported, tmp_path):
    sync_api = pytest.importorskip("playwright.sync_api")
    site = tmp_path / "site"
    shutil.copytree(EXAMPLES / "browser", site)
    fetch_runtime(site, tmp_path)
    catalogue, file, photographs = exported
    shutil.copy(file, site)
    images = sorted(photographs.rglob("*.png"))
    renamed = [shutil.copy(one, tmp_path / f"{one.parent.name}-{one.name}") for one in images]
    Image.fromarray(np.full((70, 50, 3), 255, np.uint8)).save(tmp_path / "white.png")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=site)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    asked: list[str] = []
    try:
        with sync_api.sync_playwright() as playwright:
            options = ["--no-sandbox"] if os.geteuid() == 0 else []
            page = playwright.chromium.launch(executable_path=CHROMIUM, args=options).new_page()
            page.on("request", lambda request: asked.append(request.url))
            address = f"http://127.0.0.1:{server.server_address[1]}/"
            page.goto(address)
            page.locator("#files:enabled").wait_for(timeout=60_000)
            assert page.locator("#state").inner_text() == "Knows 3 classes."
            page.locator("#files").set_input_files(renamed)
            page.locator(f"#answers li:nth-child({len(images)})").wait_for(timeout=60_000)
            lines = page.locator("#answers li").all_inner_texts()
    finally:
        server.shutdown()
    assert all(url.startswith((address, "blob:")) for url in asked), "works without a network"
    for line, one, (name, probability) in zip(lines, renamed, expected(catalogue, images), strict=True):
        file_name, _, said = line.partition(": ")
        assert file_name == Path(one).name
        assert said.split(", ")[0] == name
        assert float(said.split(", ")[1].rstrip(" %")) == pytest.approx(100 * probability, abs=5)


def fetch_runtime(site: Path, tmp_path: Path) -> None:
    """onnxruntime-web into the site, from npm; without npm or a network the test is skipped."""
    try:
        command = ["npm", "pack", RUNTIME, "--silent"]
        told = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=180)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"npm cannot fetch {RUNTIME}: {error}")
    with tarfile.open(tmp_path / told.stdout.split()[-1]) as archive:
        for name in NEEDED:
            source = archive.extractfile(f"package/dist/{name}")
            assert source is not None
            (site / name).write_bytes(source.read())
