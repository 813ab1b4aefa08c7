"""What the lists and help texts promise: examples that the commands understand, few options, groups, and no waiting."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import made_photographs as made
import subspan as package
from subspan import cli
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.train.recipe import Recipe
from subspan.train.trainer import Runtime

GROUPS = {"": cli.COMMANDS, "reproduce ": cli.EXPERIMENTS}
COMMANDS = {g + name: cli.load(file, name) for g, files in GROUPS.items() for name, (_, file) in files.items()}


def examples(text: str) -> Iterator[list[str]]:
    """The command lines that a help text shows, without their comments."""
    for line in re.findall(r"^\s*(?:Example: )?(subspan .*)$", text, re.MULTILINE):
        yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_an_example_that_it_understands(name: str):
    shown = list(examples(COMMANDS[name].help))
    assert any(words[: len(name.split())] == name.split() for words in shown)
    for words in shown:
        length = 2 if words[0] == "reproduce" else 1
        COMMANDS[" ".join(words[:length])].make_context(words[0], words[length:])  # refuses what it does not understand


def test_the_lists_say_what_the_commands_say():
    groups = {group: cli.lazy_group(files)(commands={}) for group, files in GROUPS.items()}
    listed = {group + name: one for group, made in groups.items() for name, one in made.commands.items()}
    assert {name: one.help for name, one in listed.items()} == {name: one.help for name, one in COMMANDS.items()}


@pytest.mark.parametrize("words", ["methods", "methods semantic", "recipes", "recipes strong", "backbones"])
def test_examples_that_need_nothing_run(words: str, subspan):
    status, out, _ = subspan(*words.split())
    assert status == 0
    assert len(out.splitlines()) > 3


def test_commands_stand_in_groups_and_answer_to_their_older_names(subspan, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = subspan("--help")
    assert re.findall(r"─ (\w+) ─", out) == ["Options", "Photographs", "Research", "Training"]
    assert "Example" in out
    for older, name in cli.OTHER_NAMES.items():
        assert f"`subspan {older}` is the same command" in COMMANDS[name].help
        assert subspan(older, "--help")[0] == 0
        assert not re.search(rf"^│ {older} ", out, re.MULTILINE)


def test_train_shows_what_people_set_and_recipes_lists_the_rest(subspan, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    _, shown, _ = subspan("train", "--help")
    assert 15 < len(re.findall(r"^│ +--", shown, re.MULTILINE)) <= 22
    _, listed, _ = subspan("recipes", "strong")
    for name in [*Recipe.__dataclass_fields__, *Runtime.__dataclass_fields__]:
        assert name == "name" or re.search(rf"^{name} ", listed, re.MULTILINE), name
    assert re.search(r"^epochs +66 ", listed, re.MULTILINE)


def test_the_version_is_that_of_the_package_which_runs_as_a_module_too(subspan):
    assert subspan("--version")[:2] == (0, f"subspan {package.__version__}\n")
    done = subprocess.run([sys.executable, "-m", "subspan", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"subspan {package.__version__}\n"


PLOTS, ESTIMATORS = {"matplotlib"}, {"sklearn"}
EVERYTHING = PLOTS | ESTIMATORS | {"torch", "scipy", "pandas", "numpy"}


def modules_after(*words: object) -> tuple[int, list[str], set[str]]:
    """Exit status, printed lines and loaded modules of a command, in a process of its own."""
    program = "import sys\nfrom subspan.cli import main\ntry:\n    main()\nfinally:\n    print(*sys.modules)"
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    *lines, modules = done.stdout.splitlines()
    return done.returncode, lines, set(modules.split())


@pytest.mark.parametrize(
    ("words", "unused", "status"),
    [
        ("--help", EVERYTHING, 0),
        ("", EVERYTHING, 2),
        ("--version", EVERYTHING, 0),
        ("reproduce --help", EVERYTHING, 0),
        ("bnch", EVERYTHING, 2),
        ("methods", EVERYTHING - {"numpy"}, 0),
        ("bench --help", PLOTS | ESTIMATORS, 0),
        ("train --help", PLOTS | ESTIMATORS, 0),
        ("classes --help", PLOTS, 0),
    ],
)
def test_nobody_waits_for_what_is_not_used(words, unused, status):
    found, _, loaded = modules_after(*words.split())
    assert found == status
    assert "subspan.cli" in loaded
    assert not unused & loaded


def test_one_photographs_answer_loads_few_of_our_modules(tmp_path):
    network = f"onnx:{made.write_onnx(tmp_path / 'tiny.onnx')}"
    photographs = {name: made.photographs(name, 10) for name in ("red", "green")}
    Catalogue.create(tmp_path / "c.subspan", photographs, CatalogueOptions(backbone=network))
    (tmp_path / "red.png").write_bytes(made.encoded(photographs["red"][0]))
    _, answer, loaded = modules_after("predict", tmp_path / "c.subspan", tmp_path / "red.png", "--trust")
    assert "red" in answer[-1]
    assert 20 < sum(name.split(".")[0] == "subspan" for name in loaded) <= 60


def test_commands_are_found_in_a_zip(tmp_path):
    source, unused = Path(package.__file__).parent, shutil.ignore_patterns("__pycache__", "*.npz", "*.safetensors")
    shutil.copytree(source, tmp_path / "package" / "subspan", ignore=unused)
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", tmp_path / "package")
    program, settings = [sys.executable, "-m", "subspan", "convert", "--help"], os.environ | {"PYTHONPATH": archive}
    done = subprocess.run(program, capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 0, done.stderr
    assert "Rewrite a feature file" in done.stdout
