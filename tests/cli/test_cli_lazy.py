"""What the command line does without until a command uses it, and that its lists are right all the same."""

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.core import TyperCommand
from typer.main import get_group

import made_photographs as made
import subspan
from subspan import cli
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.cli.lazy import lazy_group

PLOTS, ESTIMATORS = {"matplotlib"}, {"sklearn"}
SOURCE, UNUSED = Path(subspan.__file__).parent, shutil.ignore_patterns("__pycache__", "*.npz", "*.safetensors")
EVERYTHING = PLOTS | ESTIMATORS | {"torch", "scipy", "pandas", "numpy"}


@pytest.mark.parametrize(
    ("words", "unused", "status"),
    [
        ("--help", EVERYTHING, 0),
        ("", EVERYTHING, 2),
        ("--version", EVERYTHING, 0),
        ("reproduce --help", EVERYTHING, 0),
        ("bnch", EVERYTHING, 2),
        ("methods", EVERYTHING, 0),
        ("bench --help", PLOTS | ESTIMATORS, 0),
        ("train --help", PLOTS | ESTIMATORS, 0),
        ("classes --help", PLOTS, 0),
    ],
)
def test_nobody_waits_for_what_is_not_used(words, unused, status):
    """In a process of its own: here all may be loaded already."""
    program = """
import sys
from subspan.cli import main
try:
    main()
finally:
    print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program, *words.split()], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "subspan.cli" in loaded
    assert not unused & loaded


def test_one_photographs_answer_loads_few_of_our_modules(tmp_path):
    network = f"onnx:{made.write_onnx(tmp_path / 'tiny.onnx')}"
    photographs = {name: made.photographs(name, 10) for name in ("red", "green")}
    Catalogue.create(tmp_path / "c.subspan", photographs, CatalogueOptions(backbone=network))
    (tmp_path / "red.png").write_bytes(made.encoded(photographs["red"][0]))
    program = """
import sys
from subspan.cli import main
try:
    main()
finally:
    print(sum(name.split(".")[0] == "subspan" for name in sys.modules))
"""
    words = [sys.executable, "-c", program, "predict", tmp_path / "c.subspan", tmp_path / "red.png", "--trust"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    *answer, count = done.stdout.splitlines()
    assert "red" in answer[-1]
    assert 20 < int(count) <= 50


def with_leftovers(folder: Path) -> Path:
    """The package in a folder, with what editors and systems leave beside the files of commands."""
    package = shutil.copytree(SOURCE, folder / "subspan", ignore=UNUSED)
    (package / "cli" / ".#bench.py").symlink_to("somebody@somewhere.1")
    (package / "cli" / "._bench.py").write_bytes(b"\0\5\26\7")
    return folder


def as_zip(folder: Path) -> Path:
    shutil.copytree(SOURCE, folder / "package" / "subspan", ignore=UNUSED)
    return Path(shutil.make_archive(str(folder / "package"), "zip", folder / "package"))


@pytest.mark.parametrize("place", [with_leftovers, as_zip])
def test_commands_are_found_where_the_files_are(place, tmp_path):
    program = [sys.executable, "-m", "subspan.cli", "convert", "--help"]
    settings = os.environ | {"PYTHONPATH": str(place(tmp_path))}
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 0, done.stderr
    assert "Rewrite a feature file" in done.stdout


@pytest.mark.parametrize("owner", ["app", "experiments"])
def test_a_list_says_what_the_imported_files_say(owner):
    for module in pkgutil.iter_modules(cli.__path__):
        importlib.import_module(f"{cli.__name__}.{module.name}")
    listed = lazy_group(owner)(commands={}).commands
    loaded = {
        name: command
        for name, command in get_group(getattr(cli, owner)).commands.items()
        if isinstance(command, TyperCommand)  # groups are loaded always
    }
    assert {name: _shown(command) for name, command in listed.items()} == {
        name: _shown(command) for name, command in loaded.items()
    }
    assert all(command.callback for command in loaded.values()), "each is the command itself"


def _shown(command):
    panel = command.rich_help_panel or None  # typer has a false object of its own
    return command.help, command.short_help, panel, command.hidden, command.deprecated
