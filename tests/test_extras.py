"""What a plain install does without: which commands import none of it, and the sentence for whoever lacks it."""

import subprocess
import sys
from pathlib import Path

import pytest

import made_photographs as made
from subspan import extras

ROOT = Path(__file__).resolve().parents[1]
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
from subspan.cli import main
main()
"""


def without(modules: str, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command where these modules are not installed."""
    command = [sys.executable, "-c", WITHOUT, modules, *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


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
