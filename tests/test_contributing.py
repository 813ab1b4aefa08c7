"""The methods that CONTRIBUTING.md shows work as they stand there."""

import re
from pathlib import Path

import pytest
import torch

from subspan.checks import check_method
from subspan.engine.contract import BaseSession, Head, Session
from subspan.learners.registry import create_method, list_methods, method_options

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture(autouse=True)
def examples(forgotten_methods: None) -> None:
    """The examples, run as files of ``subspan.learners`` and registered for one test only."""
    for source in re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL):
        module = {"__name__": "subspan.learners.example", "__package__": "subspan.learners"}
        exec(compile(source, CONTRIBUTING, "exec"), module)


def test_the_examples_are_listed_with_their_options():
    assert {"average", "offset"} <= set(list_methods())
    assert method_options("average")["gamma"] == ("a number", 0.5, "strength of the pull on novel rows (R_new)")


@pytest.mark.parametrize("spec", ["average", "average:gamma=0.1,solver=optimum", "offset:share=0.2"])
def test_the_examples_pass_the_common_checks(spec: str):
    check_method(spec)


def test_average_pulls_novel_rows_to_the_mean_base_row():
    base = BaseSession(torch.eye(3, dtype=torch.float64))
    rows = torch.cat([base.rows, torch.zeros(1, 3, dtype=torch.float64)])
    session = Session(torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64), torch.tensor([3]))
    update = create_method("average:gamma=100,solver=optimum").learn(base, Head(rows, rows, 3, (3,), rows), session)
    torch.testing.assert_close(update.rows[3], torch.full((3,), 1 / 3, dtype=torch.float64), rtol=0, atol=0.01)


def test_offset_takes_its_share_of_the_mean_base_feature_off():
    base = BaseSession(torch.eye(2), means=torch.tensor([[4.0, 0.0], [0.0, 0.0]]))  # mean (2, 0)
    rows = torch.eye(3, 2)
    means = torch.tensor([[4.0, 4.0]])
    session = Session(torch.tensor([[4.0, 4.0]]), torch.tensor([2]))
    update = create_method("offset:share=0.5").learn(base, Head(rows, rows, 2, (2,), means), session)
    torch.testing.assert_close(update.rows[2], torch.tensor([0.6, 0.8]))  # (4, 4) - (1, 0), normalised
