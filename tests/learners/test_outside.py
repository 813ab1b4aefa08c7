"""Learners, backbones, sources and image formats from outside of the package: one file each, and no edit here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "mine/__init__.py": "",
    "mine/half.py": """
from dataclasses import dataclass
from subspan import Learner, register
from subspan.learners.parts.rows import RowLearner, with_learned
from subspan.values import option

print("imported mine.half")

@register
@dataclass(frozen=True)
class Half(RowLearner):
    name = "half"
    summary = "a share of the mean"
    share: float = option(0.5, "how much of the mean a row is")

    def learn(self, state, session):
        return state.after(rows=with_learned(state, session, self.share * session.means))
""",
    "mine/system.py": """
from dataclasses import dataclass
from subspan.learners.parts.cosine import CosineLearner, unit
from subspan.learners.parts.system import System

@dataclass(frozen=True)
class Nearest(System, CosineLearner):
    name = "nearest"
    summary = "cosine to means"
    reference = "nobody 2026"
    marks = "ours"

    def row_of_mean(self, base, mean):
        return unit(mean)
""",
    "mine/network.py": """
from torch import nn

def tiny(generator, **options):
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    network.feature_dim = 4
    return network
""",
    "mine/dots.py": """
import numpy as np
from subspan.images.lists import image_set

TAKES = "a file of dots"

def recognise(path):
    return path.suffix == ".dots"

def read(path, options):
    images = np.zeros((2, 8, 8, 3), np.uint8)
    return image_set(images, ["a", "b"], ["a/0", "b/0"], [None, None], path)
""",
    "mine-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
    "mine-1.0.dist-info/entry_points.txt": """
[subspan.learners]
nearest = mine.system:Nearest
[subspan.backbones]
tiny = mine.network:tiny
[subspan.images]
dots = mine.dots:recognise
""",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("outside")
    for name, text in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
    return place


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own that finds the folder among its packages."""
    paths = [str(folder), *filter(None, sys.path)]
    program = f"import sys; sys.path[:0] = {paths!r}\n"
    if words[0] == "-c":
        return subprocess.run([sys.executable, "-c", program + words[1]], capture_output=True, text=True)
    command = f"sys.argv = ['subspan', *{list(words)!r}]\nfrom subspan.cli import main\nmain()"
    return subprocess.run([sys.executable, "-c", program + command], capture_output=True, text=True)


def test_a_method_by_its_path_and_one_by_an_entry_point_on_the_command_line(folder, tmp_path):
    told = tmp_path / "out.json"
    words = ["--method", "mine.half:Half:share=0.25", "--method", "nearest", "--draws", "1", "--no-memory"]
    done = run(folder, "bench", *words, "--workers", "1", "--json", str(told))
    assert done.returncode == 0, done.stderr
    assert [one["method"] for one in json.loads(told.read_text())] == ["mine.half:Half:share=0.25", "nearest"]


def test_import_makes_what_a_module_registers_known_by_name(folder, tmp_path):
    assert "how much of the mean" in run(folder, "methods", "half", "--import", "mine.half").stdout
    assert "a share of the mean" in run(folder, "methods", "--import", "mine.half").stdout
    words = ["bench", "--import", "mine.half", "--method", "half:share=0.25", "--draws", "1", "--no-memory"]
    done = run(folder, *words, "--workers", "2", "--json", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stderr
    assert [one["method"] for one in json.loads((tmp_path / "out.json").read_text())] == ["mine.half:Half:share=0.25"]
    for command in (
        ["bench"],
        ["methods"],
        ["reproduce", "multi-session"],
        ["sweep", "a.npz", "--out", "b", "--try", "c=1"],
    ):
        done = run(folder, *command, "--import", "mine.nothing")
        assert done.returncode == 2
        assert "--import mine.nothing: No module named 'mine.nothing'; it must be installed" in done.stderr


def test_listing_names_what_is_outside_and_imports_none_of_it(folder):
    done = run(folder, "-c", "from subspan.learners.registry import list_methods; print(list_methods())")
    assert "'nearest'" in done.stdout
    assert "imported" not in done.stdout


def test_a_backbone_and_an_image_format_by_entry_points(folder, tmp_path):
    (tmp_path / "a.dots").write_text("")
    done = run(
        folder,
        "-c",
        "from subspan.backbones.registry import create_backbone, list_backbones\n"
        "from subspan.images.read import read_images\n"
        f"images = read_images({str(tmp_path / 'a.dots')!r}, size=8)\n"
        "print('tiny' in list_backbones(), create_backbone('tiny').feature_dim, len(images))",
    )
    assert done.stdout.split() == ["True", "4", "2"], done.stderr


def test_a_name_that_leads_nowhere_is_one_sentence(folder):
    done = run(folder, "bench", "--method", "mine.half:Whole", "--workers", "1")
    assert done.returncode == 2
    assert "method 'mine.half:Whole' cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_of_a_method_from_outside_imports_it_only_where_it_is_trusted(folder, tmp_path):
    saved = tmp_path / "gift.subspan"
    done = run(
        folder,
        "-c",
        "from subspan import IncrementalClassifier\n"
        "model = IncrementalClassifier.from_weights([[1, 0], [0, 1]], 'ab', method='mine.half:Half')\n"
        f"model.add_classes([[4.0, 8.0]], ['c']).save({str(saved)!r})",
    )
    assert done.returncode == 0, done.stderr
    load = f"from subspan import IncrementalClassifier\nm = IncrementalClassifier.load({str(saved)!r}"
    refused = run(folder, "-c", load + ")")
    assert "would have method 'mine.half:Half' imported" in refused.stderr
    assert "imported mine.half" not in refused.stdout
    trusted = run(folder, "-c", load + ", trust=True)\nprint(m.coef_[2].tolist())")
    assert "[2.0, 4.0]" in trusted.stdout, trusted.stderr
