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

from subspan.engine.objective import Problem, RowGroup
from subspan.engine.sgd import SgdOptions, sgd

pytest.importorskip("triton", reason="the on-chip kernel needs triton, which is not installed")

ROOT = Path(__file__).resolve().parents[2]
STEPS = 4  # the interpreter takes some 20 ms for one


def fixed(engine: str, steps: int = STEPS) -> SgdOptions:
    return SgdOptions(max_steps=steps, patience=10**6, engine=engine)  # type: ignore[arg-type]


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
    solution = sgd(make_problem(session), fixed("on_chip"))
    assert int(solution.steps) == STEPS
    assert difference(solution.rows, rows) < 1e-6


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
    ours, theirs = sgd(batch, fixed("on_chip")), sgd(batch, fixed("batched"))
    assert difference(ours.rows, theirs.rows) < 1e-6
    assert torch.allclose(ours.loss, theirs.loss, rtol=1e-5)


@pytest.mark.parametrize("regularizer", ["none", "subspace", "target"])
def test_every_problem_stops_by_itself(regularizer):
    batch = make_batch(3, regularizer=regularizer, old_penalty="squared")
    options = SgdOptions(torch.tensor([0.03, 0.0, 0.05]), tolerance=0.2, patience=2, max_steps=16, engine="batched")
    ours, theirs = sgd(batch, replace(options, engine="on_chip")), sgd(batch, options)
    assert len(set(theirs.steps.tolist())) == 3, "the problems must stop at different steps"
    assert int(theirs.steps.max()) < options.max_steps
    assert ours.steps.tolist() == theirs.steps.tolist()
    assert torch.allclose(ours.loss, theirs.loss, rtol=1e-5)
    assert difference(ours.rows, theirs.rows) < 1e-6


def test_progress_hears_of_the_last_step():
    heard = []
    sgd(make_batch(2), fixed("on_chip", 3), heard.append)
    assert heard == [3]


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        (dict(d=6, shots=(5,)), "at least twice as many examples as dimensions"),
        (dict(later=True), "one group of old rows and one of new ones; got 3 in all"),
        (dict(dtype=torch.float64), "computes in torch.float32; got torch.float64"),
        (dict(base_classes=129, d=160), "at most 128 old rows; got 129"),
        (dict(shots=(43,), copies=1, d=160), "at most 128 examples; got 129"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_rule(case, rule):
    problem = make_problem(make_session(**{"dtype": torch.float32, **case}))
    with pytest.raises(ValueError, match=rule):
        sgd(problem, fixed("on_chip"))
    sgd(problem, SgdOptions(max_steps=2))  # left to itself, sgd takes the other path


def test_one_group_of_rows_is_refused():
    problem = make_problem(make_session(dtype=torch.float32))
    with pytest.raises(ValueError, match="one of new ones; got 1 in all"):
        sgd(replace(problem, groups=problem.groups[:1], labels=problem.labels * 0), fixed("on_chip"))


def test_without_triton_it_says_what_to_install(monkeypatch):
    monkeypatch.delattr("subspan.engine.on_chip", raising=False)
    monkeypatch.setitem(sys.modules, "subspan.engine.on_chip", None)
    problem = make_problem(make_session(dtype=torch.float32))
    with pytest.raises(ImportError, match="needs Triton; install it with: pip install triton"):
        sgd(problem, fixed("on_chip"))


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


def test_auto_takes_the_kernel_only_where_it_was_measured(monkeypatch):
    """Elsewhere the compiler may make a program that nobody has seen run."""
    from subspan.engine import on_chip
    from subspan.engine.span import to_span

    def pays(support: int, base: int, *, capability: int = 9, release: str = "2.11.0") -> bool:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (capability, 0))
        monkeypatch.setattr(torch, "__version__", release)
        rows = [torch.zeros(1, count, 200) for count in (base, 5)]
        groups = [RowGroup(each, each, "norm", 0.1) for each in rows]
        labels, weight = torch.zeros(1, support, dtype=torch.int64), torch.ones(1, support)
        return on_chip.pays(to_span(Problem(torch.ones(1, support, 200), labels, weight, groups, 5e-4)))

    assert pays(125, 64)
    assert pays(25, 60)
    assert not pays(125, 70)
    assert not pays(60, 64)
    assert not pays(125, 64, capability=8)
    assert not pays(125, 64, release="2.13.0")
