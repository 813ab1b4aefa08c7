"""The page of settings and choices, against SciPy, the packaged settings and arithmetic by hand."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from subspan.engine.contract import Base, Memory
from subspan.engine.sessions import session_of, start
from subspan.features.feature_set import FeatureFileError
from subspan.learners.registry import create_method
from subspan.paper.pages import our_setting, to_page
from subspan.paper.published import published

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def choices():
    """``benchmarks/paper_choices.py`` as a module."""
    spec = importlib.util.spec_from_file_location("paper_choices", ROOT / "benchmarks" / "paper_choices.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["paper_choices"] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kept():
    """The runs as they lie in the repository: weighted accuracy (splits, sessions) by method, memory and one mean."""
    record = json.loads((ROOT / "benchmarks" / "choices" / "paper.json").read_text("utf-8"))
    counts, found = np.array(record["class_counts"]), {}
    for run in record["runs"]:
        base, novel = np.array(run["base"]), np.nan_to_num(np.array(run["novel_session_mean"], dtype=float))
        found[run["method"], run["memory"], run["one_mean"]] = (60 * base + (counts - 60) * novel) / counts
    return found


def cells(table, *headings):
    (row,) = [row for row in table.rows if row.headings == headings]
    return {column.key: row[column.key] for column in table.columns}


def test_what_a_choice_is_worth_is_a_paired_difference(choices, kept):
    table = choices.choices_table(choices.load(ROOT / "benchmarks" / choices.KEPT)[1])
    code = cells(table, "Subspace", "released code: norm, QR, two means")
    apart = kept["subspace:basis=qr", False, False][:, 8] - kept["subspace", False, False][:, 8]
    assert code["session_8-M"].value == pytest.approx(kept["subspace:basis=qr", False, False][:, 8].mean())
    assert code["more-M"].value == pytest.approx(apart.mean())
    low, high = stats.t.interval(0.95, 9, apart.mean(), stats.sem(apart))
    assert code["more-M"].half_width == pytest.approx((high - low) / 2)
    text = cells(table, "Subspace", "text: squared R_old, QR, one mean")
    with_memory = kept["subspace:old_penalty=squared,basis=qr", True, True]
    assert text["session_2+M"].value == pytest.approx(with_memory[:, 2].mean())
    assert cells(table, "Subspace", "published")["session_8-M"].value == 46.79
    assert np.isnan(cells(table, "Subspace", "ours: norm, SVD, two means")["more-M"].value)


def test_one_mean_weighs_every_example_the_same(choices):
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    method = create_method("finetune")
    state = start(method, Base(draw(3, 4)), 1)
    memories = [Memory(draw(1, 3, 4), torch.arange(3)[None]), Memory(draw(1, 2, 4), torch.tensor([[2, 2]]))]
    session = session_of(
        draw(1, 5, 4), torch.full((1, 5), 3), range(3, 4), base_memory=memories[0], novel_memory=memories[1], seeds=(0,)
    )
    two, _ = method.problem(state, session)
    one, _ = choices.with_one_mean(method).problem(state, session)
    torch.testing.assert_close(two.sample_weight, torch.tensor([[1 / 8] * 8 + [1 / 2] * 2]))
    torch.testing.assert_close(one.sample_weight, torch.full((1, 10), 1 / 10))
    torch.testing.assert_close(one.features, two.features)


def test_runs_of_other_features_are_refused(choices, tmp_path):
    record = {"command": "make it", "class_counts": [60], "protocol": "", "runs": []}
    (tmp_path / "choices").mkdir()
    (tmp_path / "features").mkdir()
    (tmp_path / "features" / "a.npz").write_bytes(b"others")
    (tmp_path / choices.KEPT).write_text(json.dumps({**record, "sources": {"features/a.npz": "0" * 64}}))
    with pytest.raises(
        FeatureFileError, match=r"a\.npz' is not what choices/paper\.json was measured on; run `make it`"
    ):
        choices.section_of(tmp_path)


def test_settings_of_ours_are_those_of_the_package():
    assert our_setting("semantic.gamma") == f"{create_method('semantic').gamma:g}"
    assert our_setting("Semantic subspace (label)/1/tau") == "1.5"
    head = to_page("choices", [])
    assert "{" not in head
    assert "| gamma: semantic | as subspace, so 1.0 | 0.2 | l. 530; semantic_subspace_reg:25 | 0.2 |" in head


def test_published_curves_are_those_of_the_tables():
    curves = published().curves
    assert curves["subspace", True][-1] == 48.83
    assert curves["finetune", False][0] == 80.37
    assert {len(values) for values in curves.values()} == {9}
