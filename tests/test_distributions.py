"""The wheel and the source distribution: small, whole, and installed from as a user does."""

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import made_photographs as made

ROOT = Path(__file__).resolve().parents[1]
MIB = 2**20
USE = """
import subspan
from subspan.features import bundled
from subspan.language.packaged import packaged_embeddings
assert packaged_embeddings("description", ["n02108089"]).shape == (1, 384)
assert len(bundled().base_wnids) == 60
print(subspan.__version__, subspan.__file__)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """Both distributions, from a copy of what they are made of: a build leaves nothing in the checkout."""
    source, out = tmp_path_factory.mktemp("source") / "subspan", tmp_path_factory.mktemp("dist")
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "NOTICE", ".gitignore"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("tests", "benchmarks"):  # stand in for what must stay behind
        (source / name).mkdir()
        (source / name / "large.npz").write_bytes(b"0")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", out], cwd=source, check=True)
    return {"wheel": next(out.glob("*.whl")), "source": next(out.glob("*.tar.gz"))}


@pytest.mark.parametrize(("kind", "limit"), [("wheel", 6), ("source", 10)])
def test_it_is_small(built, kind, limit):
    assert built[kind].stat().st_size <= limit * MIB


def test_the_source_distribution_holds_the_package_and_its_papers(built):
    with tarfile.open(built["source"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "NOTICE", "src/subspan/py.typed"} <= names
    assert {name.partition("/")[0] for name in names if "/" in name} == {"src"}


def test_the_wheel_holds_every_file_of_the_package(built):
    package = ROOT / "src" / "subspan"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    with zipfile.ZipFile(built["wheel"]) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {path.relative_to(package.parent).as_posix() for path in files}


@pytest.mark.parametrize("kind", ["wheel", "source"])
def test_it_installs_and_works(built, kind, tmp_path):
    target, elsewhere = tmp_path / "installed", tmp_path / "elsewhere"
    elsewhere.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*install, "--target", target, built[kind]], check=True)
    told = subprocess.run(
        [sys.executable, "-c", USE], cwd=elsewhere, env={"PYTHONPATH": str(target)}, check=True, capture_output=True
    )
    version, file = told.stdout.decode().split()
    assert Path(file).is_relative_to(target)
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text("utf-8"), "what changed is told"
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)


@pytest.mark.slow
def test_a_plain_install_is_small_and_does_all_that_photographs_need(built, tmp_path):
    """With what pip brings along by itself, and nothing of this environment."""
    place = tmp_path / "plain"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    subprocess.run([sys.executable, "-m", "pip", "--python", place, "install", "-qq", built["wheel"]], check=True)
    told = subprocess.run(["du", "-sm", place], check=True, capture_output=True, text=True).stdout
    print(f"installed, in MB: {told}")
    assert int(told.split()[0]) <= 400

    made.write_folders(tmp_path / "photographs", {"red": 6, "green": 6})
    made.write_folders(tmp_path / "new", {"blue": 3})

    def subspan(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [place / "bin" / "subspan", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, check=False, capture_output=True, text=True, env={"LANG": "C.UTF-8"}
        )

    for arguments in (
        ["init", "c.subspan", "photographs"],
        ["add", "c.subspan", "new", "--anyway"],
        ["evaluate", "c.subspan", "new"],
    ):
        done = subspan(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(subspan("predict", "c.subspan", "photographs/red/00.png", "--json").stdout)
    assert {one["name"] for one in answer[0]["candidates"]} == {"red", "green", "blue"}
    assert "pip install 'subspan[research]'" in subspan("bench").stderr
    assert "pip install 'subspan[serve]'" in subspan("serve", "c.subspan").stderr
