"""What the help promises: examples that the commands understand, few options, groups."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.core import TyperCommand
from typer.main import get_group

from subspan import cli
from subspan.cli.lazy import lazy_group
from subspan.train.recipe import Recipe
from subspan.train.trainer import Runtime

APP = get_group(cli.app)
COMMANDS = {
    name: command
    for owner, prefix in (("app", ""), ("experiments", "reproduce "))
    for name, command in ((prefix + name, one) for name, one in lazy_group(owner)(commands={}).commands.items())
}


def examples(text: str) -> Iterator[list[str]]:
    """The command lines that a help text shows, without their comments."""
    for line in re.findall(r"^\s*(?:Example: )?(subspan .*)$", text, re.MULTILINE):
        yield shlex.split(line, comments=True)[1:]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_an_example_that_it_understands(name: str):
    shown = [words for words in examples(COMMANDS[name].help or "") if words[: len(name.split())] == name.split()]
    assert shown
    for words in examples(COMMANDS[name].help or ""):
        group: Any = APP
        while not isinstance(command := group.get_command(None, words[0]), TyperCommand):
            group, words = command, words[1:]
        command.make_context(words[0], words[1:])  # refuses what the command does not understand


@pytest.mark.parametrize("words", ["methods", "methods semantic", "recipes", "recipes strong", "backbones"])
def test_examples_that_need_nothing_run(words: str, subspan):
    status, out, _ = subspan(*words.split())
    assert status == 0
    assert len(out.splitlines()) > 3


def test_commands_stand_in_groups_and_answer_to_their_older_names(subspan, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    _, out, _ = subspan("--help")
    titles = re.findall(r"─ (\w+) ─", out)
    assert titles == ["Options", "Photographs", "Research", "Training"]
    for older, name in cli.OTHER_NAMES.items():
        assert f"`subspan {older}` is the same command" in (COMMANDS[name].help or "")
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


def test_the_package_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "subspan", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("subspan ")
