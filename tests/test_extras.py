"""What a plain install does without: which commands import none of it, and the sentence for whoever lacks it."""

import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import IO

import httpx2
import pytest

import made_photographs as made
from subspan import extras

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {*extras.MODULES["research"], "ray", "onnx", "sentence_transformers"}
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
from subspan.cli import main
main()
"""


def imports(*arguments: object, until: Callable[[IO[str]], object] | None = None) -> set[str]:
    """The packages that a command imports in a process of its own, as Python itself lists them.

    ``until`` is done with its output before it is ended, where it does not end by itself.
    """
    command = [sys.executable, "-X", "importtime", "-m", "subspan", *map(str, arguments)]
    with tempfile.TemporaryFile("w+") as errors:  # a pipe that nobody reads would fill, and stop the command
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            if until is not None and process.stdout is not None:
                until(process.stdout)
                process.send_signal(signal.SIGTERM)
        finally:
            process.communicate(timeout=120)
        errors.seek(0)
        listed = errors.read()
    assert process.returncode in ((0,) if until is None else (0, -signal.SIGTERM)), listed[-2000:]
    return {name.partition(".")[0] for name in re.findall(r"^import time:.*\| +([\w.]+)$", listed, re.MULTILINE)}


def without(modules: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command where these modules are not installed."""
    command = [sys.executable, "-c", WITHOUT, modules, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_photographs_need_no_extra(tmp_path):
    photographs = made.write_folders(tmp_path / "photographs", {"red": 4, "green": 4, "blue": 4})
    new = made.write_folders(tmp_path / "new", {"pink": 2})
    catalogue = tmp_path / "colours.subspan"
    for arguments in (
        ("init", catalogue, photographs),
        ("add", catalogue, new, "--anyway"),
        ("predict", catalogue, new),
        ("evaluate", catalogue, photographs),
        ("classes", catalogue),
        ("sessions", catalogue),
        ("undo", catalogue),
    ):
        assert not imports(*arguments) & HEAVY, arguments[0]

    def ask(printed: IO[str]) -> None:
        address = next(found[1] for line in printed if (found := re.match(r"Page: (.*/)#", line)))
        files = [("images", ("a.png", (photographs / "red" / "00.png").read_bytes(), "image/png"))]
        assert httpx2.post(f"{address}predict", files=files).status_code == 200

    assert not imports("serve", catalogue, "--port", "0", until=ask) & HEAVY


def test_the_extras_are_those_of_the_project():
    of_the_project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    distributions = packages_distributions()
    plain = {re.split(r"[>=;\[ ]", one)[0] for one in of_the_project["dependencies"]}
    for extra, modules in extras.MODULES.items():
        named = {re.split(r"[>=;\[ ]", one)[0] for one in of_the_project["optional-dependencies"][extra]}
        assert not named & plain
        for module in {*modules} & distributions.keys():
            assert {one.lower().replace("_", "-") for one in distributions[module]} & named, (
                f"{module} comes with the extra {extra}"
            )


@pytest.mark.parametrize(
    ("arguments", "module", "extra"),
    [
        (("bench",), "torch", "research"),
        (("compare", "photographs"), "sklearn", "research"),
        (("reproduce", "multi-session", "features.npz"), "torch", "research"),
        (("train", "--data", "photographs", "--out", "run"), "torch", "research"),
        (("serve", ROOT / "tests/catalogue/stores-0.2.0-dev/auto.subspan"), "uvicorn", "serve"),
        (("init", "new.subspan", "photographs", "--method", "subspace"), "torch", "research"),
    ],
)
def test_commands_name_the_extra_that_they_need(tmp_path, arguments, module, extra):
    made.write_folders(tmp_path / "photographs", {"red": 2, "green": 2})
    done = without(module, *arguments, folder=tmp_path)
    said = f"this needs the package {module}; install it with: pip install 'subspan[{extra}]'\n"
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.endswith(said)


def test_python_says_so_too():
    program = "import sys; sys.modules['sklearn'] = None\nfrom subspan import IncrementalClassifier"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: this needs the package sklearn; install it with: pip install 'subspan[research]'"
    )


def test_a_module_of_no_extra_is_not_explained():
    assert extras.sentence(ModuleNotFoundError("No module named 'numpy'", name="numpy")) is None
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'subspan\.nowhere'"):
        extras.imported("subspan.nowhere")
