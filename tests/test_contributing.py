"""The methods that CONTRIBUTING.md shows work as they stand there."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from subspan.checks import check_method
from subspan.engine.contract import Base, State
from subspan.engine.sessions import session_of
from subspan.learners.registry import create_method, list_methods, method_options

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture(autouse=True)
def examples(monkeypatch: pytest.MonkeyPatch, forgotten_methods: None) -> None:
    """The examples, run as files of ``subspan.learners`` and registered for one test only."""
    sources = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL)
    for number, source in enumerate(sources):
        module = ModuleType(f"subspan.learners.example_{number}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(source, CONTRIBUTING, "exec"), vars(module))


def test_the_examples_are_listed_with_their_options():
    assert {"average", "offset"} <= set(list_methods())
    assert method_options("average")["gamma"] == ("a number", 0.5, "strength of the pull on novel rows (R_new)")


@pytest.mark.parametrize("spec", ["average", "average:gamma=0.1,solver=optimum", "offset:share=0.2"])
def test_the_examples_pass_the_common_checks(spec: str):
    check_method(spec)


def after_one_example(spec: str, base: Base, example: list[float]) -> State:
    """What a method knows after a session of one class with one example."""
    method, novel = create_method(spec), len(base.rows)
    support = torch.tensor([example]).to(base.rows)
    return method.learn(method.start(base), session_of(support, torch.tensor([novel]), (novel,)))


def test_average_pulls_novel_rows_to_the_mean_base_row():
    base = Base(torch.eye(3, dtype=torch.float64))
    after = after_one_example("average:gamma=100,solver=optimum", base, [0.0, 0.0, 1.0])
    torch.testing.assert_close(after.rows[3], torch.full((3,), 1 / 3, dtype=torch.float64), rtol=0, atol=0.01)


def test_offset_takes_its_share_of_the_mean_base_feature_off():
    base = Base(torch.eye(2), means=torch.tensor([[4.0, 0.0], [0.0, 0.0]]))  # mean (2, 0)
    after = after_one_example("offset:share=0.5", base, [4.0, 4.0])
    torch.testing.assert_close(after.rows[2], torch.tensor([0.6, 0.8]))  # (4, 4) - (1, 0), normalised
