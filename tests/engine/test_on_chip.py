"""The on-chip kernel, in Triton's interpreter, against the PyTorch path it replaces and the naive loop."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from naive import naive_sgd
from test_solvers import GRID, difference, make_problem, make_session, stack

from subspan.engine.objective import Problem, RowGroup, Solution
from subspan.engine.sgd import SgdOptions, sgd
from subspan.engine.span import to_span

pytest.importorskip("triton", reason="the on-chip kernel needs triton, which is not installed")
from subspan.engine import on_chip

ROOT = Path(__file__).resolve().parents[2]
STEPS = 4  # the interpreter takes some 20 ms for one


FIXED = SgdOptions(max_steps=STEPS, patience=10**6)


def on_chip_rows(problem: Problem, options: SgdOptions = FIXED) -> Solution:
    """What `sgd` gives where the kernel is taken."""
    span = to_span(problem)
    assert on_chip.fits(span)
    x, steps, loss = on_chip.descend(span, options)
    return Solution(span.rows(x), steps, loss)


def make_batch(count: int = 3, **case) -> Problem:
    """Sessions of one shape in float32, no two with the same strengths, rates of decay and weights of examples."""
    sessions = [make_session(seed=seed, **case) for seed in range(count)]
    for i, session in enumerate(sessions):
        session.weight_decay, session.beta_base, session.gamma = (
            10.0 ** -(i + 2),
            0.1 * (i + 1),
            0.3 * session.gamma * i,
        )
    batch = stack([make_problem(session) for session in sessions])
    generator = torch.Generator().manual_seed(0)
    uneven = batch.sample_weight * torch.rand(batch.sample_weight.shape, generator=generator, dtype=torch.float64) * 2
    return to_float32(replace(batch, sample_weight=uneven))


def to_float32(problem: Problem) -> Problem:
    def group32(group: RowGroup) -> RowGroup:
        start = group.start.float()
        reference = None if group.reference is None else group.reference.float()
        at_reference = reference is not None and torch.equal(reference, start)
        return replace(
            group,
            start=start,
            reference=start if at_reference else reference,
            basis=None if group.basis is None else group.basis.float(),
        )

    return replace(
        problem,
        features=problem.features.float(),
        sample_weight=problem.sample_weight.float(),
        groups=[group32(group) for group in problem.groups],
    )


@pytest.mark.parametrize("case", [case for case in GRID if not case.values[0]["later"]])
def test_the_kernel_takes_the_naive_loops_steps(case):
    session = make_session(**case, dtype=torch.float32)
    rows, _ = naive_sgd(session, fixed_steps=STEPS)
    solution = on_chip_rows(make_problem(session))
    assert int(solution.steps) == STEPS
    assert difference(solution.rows[0], rows) < 1e-6


SHAPES = [
    pytest.param(dict(new_classes=1, shots=(1,), copies=1), id="one-class-one-example"),
    pytest.param(dict(new_classes=7, shots=(1,), copies=1), id="n-7"),
    pytest.param(dict(new_classes=17, shots=(1, 3, 2), base_classes=19, d=80), id="unequal-shots-many-ways"),
    pytest.param(dict(new_classes=5, shots=(5,), copies=5, base_classes=60, d=130), id="an-episode-of-the-paper"),
    pytest.param(dict(new_classes=5, shots=(5,), copies=5, base_classes=100, d=130), id="many-old-rows"),
    pytest.param(dict(rank_deficient=True, bias=True), id="rank-deficient-bias"),
    pytest.param(dict(beta=0.0, memory=True), id="no-old-penalty"),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("regularizer", ["none", "subspace", "target"])
def test_a_batch_is_that_of_the_batched_path(regularizer, shape):
    batch = make_batch(2, regularizer=regularizer, **shape)
    ours, theirs = on_chip_rows(batch), sgd(batch, FIXED)
    assert difference(ours.rows, theirs.rows) < 1e-6
    assert torch.allclose(ours.loss, theirs.loss, rtol=1e-5)


@pytest.mark.parametrize("regularizer", ["none", "subspace", "target"])
def test_every_problem_stops_by_itself(regularizer):
    batch = make_batch(3, regularizer=regularizer, old_penalty="squared")
    options = SgdOptions(torch.tensor([0.03, 0.0, 0.05]), tolerance=0.2, patience=2, max_steps=16)
    ours, theirs = on_chip_rows(batch, options), sgd(batch, options)
    assert len(set(theirs.steps.tolist())) == 3, "the problems must stop at different steps"
    assert int(theirs.steps.max()) < options.max_steps
    assert ours.steps.tolist() == theirs.steps.tolist()
    assert torch.allclose(ours.loss, theirs.loss, rtol=1e-5)
    assert difference(ours.rows, theirs.rows) < 1e-6


@pytest.mark.parametrize("case", [dict(d=6, shots=(5,)), dict(later=True), dict(dtype=torch.float64)])
def test_what_does_not_fit_takes_the_other_path(case):
    problem = make_problem(make_session(**{"dtype": torch.float32, **case}))
    assert not on_chip.fits(to_span(problem))
    assert not on_chip.fits(to_span(replace(problem, groups=problem.groups[:1], labels=problem.labels * 0)))
    sgd(problem, SgdOptions(max_steps=2))


@pytest.mark.slow
def test_it_compiles_for_hopper_and_fits_its_shared_memory(tmp_path):
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, ROOT / "benchmarks" / "on_chip.py", "--compile"]
    command += ["--methods", "subspace"]
    printed = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    rows = [line.split() for line in printed.splitlines()[1:]]
    assert rows
    for _, shared, _, _, _, tensor_instructions in rows:
        assert float(shared) <= 227
        assert int(tensor_instructions) > 0


def test_the_kernel_is_taken_only_where_it_was_measured(monkeypatch):
    """Elsewhere the compiler may make a program that nobody has seen run."""

    def takes(support: int, base: int, *, capability: int = 9, release: str = "2.11.0") -> bool:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (capability, 0))
        monkeypatch.setattr(torch, "__version__", release)
        rows = [torch.zeros(1, count, 200) for count in (base, 5)]
        groups = [RowGroup(each, each, "norm", 0.1) for each in rows]
        labels, weight = torch.zeros(1, support, dtype=torch.int64), torch.ones(1, support)
        return on_chip.takes(to_span(Problem(torch.ones(1, support, 200), labels, weight, groups, 5e-4)))

    assert takes(125, 64)
    assert takes(25, 60)
    assert not takes(125, 70)
    assert not takes(60, 64)
    assert not takes(125, 64, capability=8)
    assert not takes(125, 64, release="2.13.0")
