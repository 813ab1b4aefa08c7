"""The method that CONTRIBUTING.md shows works as it stands there."""

import re
from pathlib import Path

import pytest
import torch

from subspan.methods import BaseSession, Head, Method, Session, create_method, list_methods, method_options, registry

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture
def average(monkeypatch: pytest.MonkeyPatch) -> Method:
    """The example, run as a file of ``subspan.methods`` and registered for one test only."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    (source,) = re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL)
    module = {"__name__": "subspan.methods.average", "__package__": "subspan.methods"}
    exec(compile(source, CONTRIBUTING, "exec"), module)
    return create_method("average:gamma=100,solver=optimum")


def test_the_example_is_listed_with_its_options(average: Method):
    assert average.name in list_methods()
    assert method_options("average")["gamma"] == ("a number", 0.5, "strength of the pull on novel rows (R_new)")


def test_the_example_pulls_novel_rows_to_the_mean_base_row(average: Method):
    base = BaseSession(torch.eye(3, dtype=torch.float64))
    rows = torch.cat([base.rows, torch.zeros(1, 3, dtype=torch.float64)])
    session = Session(torch.tensor([[0.0, 0.0, 1.0]], dtype=torch.float64), torch.tensor([3]))
    update = average.learn(base, Head(rows, rows, 3, (3,), rows), session)
    torch.testing.assert_close(update.rows[3], torch.full((3,), 1 / 3, dtype=torch.float64), rtol=0, atol=0.01)
