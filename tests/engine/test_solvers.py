"""Both solvers against the naive loop on full weights, over a grid of cases and a hypothesis search."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from naive import NaiveSession, naive_sgd
from torch import Tensor

from subspan.arrays import append_one
from subspan.engine.objective import Problem, RowGroup, concatenate, mean_weights, standing_still
from subspan.engine.optimum import optimum
from subspan.engine.sgd import SgdOptions, pull_strength, sgd


def make_session(
    *,
    seed: int = 0,
    regularizer: str = "subspace",
    memory: bool = False,
    old_penalty: str = "norm",
    new_classes: int = 3,
    shots: tuple[int, ...] = (2,),
    copies: int = 2,
    d: int = 24,
    base_classes: int = 8,
    later: bool = False,
    rank_deficient: bool = False,
    dtype: torch.dtype = torch.float64,
    weight_decay: float = 5e-4,
    beta: float = 0.2,
    bias: bool = False,
) -> NaiveSession:
    """A random session. ``later`` makes it a later one: earlier novel rows exist and starts differ from references."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    base = normal(base_classes, d) * 0.3
    if rank_deficient:
        base = base - base.mean(0)
    earlier = 4 if later else 0
    labels, support = [], []
    for k in range(new_classes):
        count = shots[k % len(shots)] * copies
        support.append(normal(1, d) + 0.5 * normal(count, d))
        labels += [base_classes + earlier + k] * count
    features, support_labels = torch.cat(support), torch.tensor(labels)
    if memory:
        features = torch.cat([features, normal(base_classes, d)])
        support_labels = torch.cat([support_labels, torch.arange(base_classes)])
    if bias:
        features, base = append_one(features), torch.cat([base, normal(base_classes, 1)], dim=1)
        d += 1
    left, singular, _ = torch.linalg.svd(base.T, full_matrices=False)
    basis = left[:, singular > 0.01 * singular[0]]
    session = NaiveSession(
        support=features,
        support_labels=support_labels,
        memory=normal(earlier * 2, d) if memory and later else None,
        memory_labels=torch.arange(base_classes, base_classes + earlier).repeat(2) if memory and later else None,
        base_start=base + 0.05 * normal(base_classes, d) if later else base,
        base_reference=base,
        novel_start=normal(earlier, d) * 0.3 if later else None,
        novel_reference=normal(earlier, d) * 0.3 if later else None,
        new_start=(torch.rand(new_classes, d, generator=generator, dtype=torch.float64) * 2 - 1) / d**0.5,
        regularizer=regularizer,
        projector=basis @ basis.T,
        target=normal(new_classes, d) * 0.2,
        gamma={"none": 0.0, "subspace": 1.0, "target": 0.2}[regularizer],
        beta_base=beta,
        beta_novel=beta / 2,
        old_penalty=old_penalty,
        weight_decay=weight_decay,
    )
    for name, value in vars(session).items():
        if isinstance(value, Tensor) and value.is_floating_point():
            setattr(session, name, value.to(dtype))
    return session


def make_problem(session: NaiveSession) -> Problem:
    """The same session as the package states it."""
    s = session
    strength = {"penalty": s.old_penalty}
    groups = [RowGroup(s.base_start, s.base_reference, strength=s.beta_base, **strength)]
    if s.novel_start is not None:
        groups.append(RowGroup(s.novel_start, s.novel_reference, strength=s.beta_novel, **strength))
    if s.regularizer == "none":
        groups.append(RowGroup(s.new_start))
    elif s.regularizer == "target":
        groups.append(RowGroup(s.new_start, s.target, "squared", s.gamma))
    else:
        values, vectors = torch.linalg.eigh(s.projector.double())
        basis = vectors[:, values > 0.5].to(s.new_start)
        groups.append(RowGroup(s.new_start, None, "squared", s.gamma, basis))
    features, labels = s.support, s.support_labels
    if s.memory is not None:
        features, labels = torch.cat([features, s.memory]), torch.cat([labels, s.memory_labels])
    weights = mean_weights(len(s.support), len(features) - len(s.support), features)
    return Problem(features, labels, weights, groups, s.weight_decay)


def difference(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).norm() / theirs.norm())


GRID = [
    pytest.param(dict(regularizer=r, memory=m, old_penalty=p, later=later), id=f"{r}-{'M' if m else 'noM'}-{p}-{later}")
    for r in ("none", "subspace", "target")
    for m in (False, True)
    for p in ("norm", "squared")
    for later in (False, True)
]
SHAPES = [
    pytest.param(dict(new_classes=1, shots=(1,), copies=1), id="one-class-one-example"),
    pytest.param(dict(new_classes=7, shots=(5,), copies=1), id="seven-ways-five-shots"),
    pytest.param(dict(shots=(1, 4, 2)), id="unequal-shots"),
    pytest.param(dict(d=6, shots=(5,), memory=True), id="n-above-2d"),
    pytest.param(dict(d=6, base_classes=9), id="base-classes-above-d"),
    pytest.param(dict(rank_deficient=True), id="rank-deficient"),
    pytest.param(dict(bias=True, later=True), id="bias"),
    pytest.param(dict(d=80), id="n-far-below-d"),
    pytest.param(dict(beta=0.01, later=True), id="weak-norm-penalty"),
    pytest.param(dict(beta=0.0, memory=True), id="no-old-penalty"),
]


@pytest.mark.parametrize("case", GRID + SHAPES)
def test_sgd_takes_the_naive_loops_steps(case):
    session = make_session(**case)
    rows, steps = naive_sgd(session, max_steps=300)
    solution = sgd(make_problem(session), SgdOptions(max_steps=300))
    assert int(solution.steps) == steps
    assert difference(solution.rows, rows) < 1e-9


@pytest.mark.parametrize("case", GRID + SHAPES)
def test_sgd_in_float32_stays_with_the_naive_loop(case):
    session = make_session(**case, dtype=torch.float32)
    rows, _ = naive_sgd(session, fixed_steps=300)
    solution = sgd(make_problem(session), SgdOptions(max_steps=300, patience=10**6))
    assert difference(solution.rows, rows) < 1e-4


CASES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "regularizer": st.sampled_from(["none", "subspace", "target"]),
        "memory": st.booleans(),
        "old_penalty": st.sampled_from(["norm", "squared"]),
        "new_classes": st.integers(1, 7),
        "shots": st.lists(st.integers(1, 5), min_size=1, max_size=7).map(tuple),
        "copies": st.integers(1, 3),
        "d": st.integers(3, 60),
        "base_classes": st.integers(2, 12),
        "later": st.booleans(),
        "rank_deficient": st.booleans(),
        "bias": st.booleans(),
        "beta": st.sampled_from([0.0, 0.001, 0.01, 0.2, 5.0]),
        "weight_decay": st.sampled_from([5e-5, 5e-4, 5e-3, 0.1]),
    }
)


def sensitivity(session: NaiveSession, steps: int) -> float:
    """How far the naive loop ends from itself when its examples and new rows start 1e-13 away, a thousand roundings.

    Steps that jump over the corner of `norm` are chaotic: a rounding grows with every step, and after 80 the rows are
    not determined to what is asked of a solver. An order of summation alone does not show that in every such session.
    """
    rows, _ = naive_sgd(session, fixed_steps=steps)
    generator = torch.Generator().manual_seed(0)

    def nudged(values: Tensor) -> Tensor:
        return values + 1e-13 * torch.randn(values.shape, generator=generator, dtype=values.dtype)

    moved = [replace(session, support=nudged(session.support), new_start=nudged(session.new_start)) for _ in range(2)]
    return max(difference(naive_sgd(one, fixed_steps=steps)[0], rows) for one in moved)


@pytest.mark.slow
@given(CASES)
@settings(max_examples=60)
def test_sgd_agrees_wherever_one_looks(case):
    session = make_session(**case)
    rows, steps = naive_sgd(session, max_steps=80, tolerance=1e-3)
    assume(sensitivity(session, steps) < 1e-11)
    solution = sgd(make_problem(session), SgdOptions(max_steps=80, tolerance=1e-3))
    assert int(solution.steps) == steps
    assert difference(solution.rows, rows) < 1e-9


def test_a_chaotic_session_is_told_from_a_tame_one():
    found = dict(seed=11, regularizer="none", new_classes=6, shots=(3,), copies=3, d=3, base_classes=3)
    assert sensitivity(make_session(**found), 80) > 1e-6
    assert sensitivity(make_session(**found, old_penalty="squared"), 80) < 1e-12


def stack(problems: list[Problem]) -> Problem:
    """Problems of one shape as one batch."""
    groups = []
    for members in zip(*(p.groups for p in problems), strict=True):
        first = members[0]
        groups.append(
            RowGroup(
                torch.stack([g.start for g in members]),
                None if first.reference is None else torch.stack([g.reference for g in members]),
                first.penalty,
                torch.tensor([float(g.strength) for g in members], dtype=torch.float64),
                None if first.basis is None else torch.stack([g.basis for g in members]),
            )
        )
    return Problem(
        torch.stack([p.features for p in problems]),
        torch.stack([p.labels for p in problems]),
        torch.stack([p.sample_weight for p in problems]),
        groups,
        torch.tensor([float(p.weight_decay) for p in problems], dtype=torch.float64),
    )


@pytest.mark.parametrize("regularizer", ["none", "subspace", "target"])
@pytest.mark.parametrize("solver", [partial(sgd, options=SgdOptions(tolerance=3e-3)), optimum], ids=["sgd", "optimum"])
def test_a_batch_is_its_problems_one_by_one(regularizer, solver):
    sessions = [
        make_session(seed=seed, regularizer=regularizer, later=True, old_penalty="squared") for seed in range(5)
    ]
    for i, session in enumerate(sessions):  # hyper-parameters differ within the batch
        session.weight_decay, session.beta_base, session.gamma = 10.0 ** -(i + 1), 0.1 * i, session.gamma * (i + 1)
    problems = [make_problem(session) for session in sessions]
    batch = solver(stack(problems))
    for i, problem in enumerate(problems):
        single = solver(problem)
        assert difference(batch.rows[i], single.rows) < (1e-6 if solver is optimum else 1e-9)
        if solver is not optimum:
            assert int(batch.steps[i]) == int(single.steps)
    assert solver is optimum or len(set(batch.steps.tolist())) > 1, "the problems must stop at different steps"


def test_concatenated_batches_are_solved_as_each_by_itself():
    """Bases of different rank included: the second batch's base rows are rank-deficient."""
    batches = []
    for deficient in (False, True):
        sessions = [make_session(seed=seed, rank_deficient=deficient, old_penalty="squared") for seed in range(2)]
        batches.append(stack([make_problem(session) for session in sessions]))
    options = SgdOptions(max_steps=100)
    together = sgd(concatenate(batches), options).rows
    apart = torch.cat([sgd(batch, options).rows for batch in batches])
    assert batches[0].groups[-1].basis.shape != batches[1].groups[-1].basis.shape
    assert difference(together, apart) < 1e-12


def test_padding_rows_of_weight_zero_change_nothing():
    problem = make_problem(make_session(memory=True, later=True))
    padded = Problem(
        torch.cat([problem.features, torch.randn(5, problem.features.shape[1], dtype=torch.float64)]),
        torch.cat([problem.labels, torch.zeros(5, dtype=torch.int64)]),
        torch.cat([problem.sample_weight, torch.zeros(5, dtype=torch.float64)]),
        problem.groups,
        problem.weight_decay,
    )
    assert difference(sgd(padded).rows, sgd(problem).rows) < 1e-12


def minimal_subgradient(session: NaiveSession, rows: Tensor) -> float:
    """By autograd on full weights; a norm group at exactly zero change may choose within its ball."""
    counts = [len(r) for r in (session.base_start, session.novel_start, session.new_start) if r is not None]
    leaves = [r.clone().requires_grad_() for r in rows.split(counts)]
    gradients = torch.autograd.grad(session.evaluate(leaves, session.objective), leaves)
    references, betas = [session.base_reference, session.novel_reference], [session.beta_base, session.beta_novel]
    total = 0.0
    for i, gradient in enumerate(gradients):
        length = float(gradient.norm())
        at_corner = i < len(counts) - 1 and session.old_penalty == "norm" and bool((leaves[i] == references[i]).all())
        total += max(0.0, length - betas[i]) ** 2 if at_corner else length**2
    return total**0.5


@pytest.mark.parametrize("case", GRID + SHAPES)
def test_optimum_is_the_minimum(case):
    session = make_session(**case)
    start = torch.cat([r.detach() for r in session.start()])
    found = optimum(make_problem(session))
    assert minimal_subgradient(session, found.rows) < 1e-6 * minimal_subgradient(session, start)
    groups = found.rows.split([len(rows) for rows in session.start()])
    assert float(found.loss) == pytest.approx(float(session.evaluate([*groups], session.objective)), rel=1e-9)


@pytest.mark.slow
@given(CASES)
@example(  # features outside the base span that depend on one another
    {"regularizer": "subspace", "memory": True, "new_classes": 1, "shots": (1,), "copies": 1, "d": 3, "base_classes": 2}
    | {"beta": 0.0, "weight_decay": 5e-5}
)
@example(  # a reference inside the span of the features
    {"regularizer": "target", "memory": True, "new_classes": 1, "shots": (2,), "copies": 1, "d": 3, "base_classes": 3}
    | {"later": True, "bias": True, "beta": 0.0, "weight_decay": 5e-5}
)
@settings(max_examples=60)
def test_optimum_is_the_minimum_wherever_one_looks(case):
    session = make_session(**case)
    start = torch.cat([r.detach() for r in session.start()])
    assert minimal_subgradient(session, optimum(make_problem(session)).rows) < 1e-6 * minimal_subgradient(
        session, start
    )


def test_optimum_does_not_depend_on_the_start_and_sgd_arrives_there():
    session = make_session(regularizer="target", old_penalty="squared", later=True, weight_decay=0.1)
    found = optimum(make_problem(session))
    rows, _ = naive_sgd(session, lr=0.05, fixed_steps=4000)
    assert difference(found.rows, rows) < 1e-7
    session.new_start = session.new_start * 5
    assert difference(optimum(make_problem(session)).rows, found.rows) < 1e-8


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("old_penalty", ["norm", "squared"])
def test_optimum_ends_where_rounding_is_all_that_is_left(dtype, old_penalty):
    problem = make_problem(make_session(old_penalty=old_penalty, memory=True, dtype=dtype))
    found = optimum(problem, tolerance=0.0, max_newton=200)
    assert int(found.steps) < 50, "no arithmetic brings a subgradient to zero, but five steps in a row without gain end"
    assert float(found.loss) == pytest.approx(float(optimum(problem).loss), rel=1e-6)


def test_a_basis_beside_a_reference_leaves_the_part_inside_free():
    """The penalty is on what of the change from the reference lies outside the span of the basis."""
    generator = torch.Generator().manual_seed(3)
    features, start, reference = (torch.randn(n, 6, generator=generator).double() for n in (9, 4, 4))
    basis = torch.linalg.qr(torch.randn(6, 2, generator=generator).double())[0]
    labels, weights = torch.arange(9) % 4, torch.full((9,), 1 / 9, dtype=torch.float64)
    group = RowGroup(start, reference, "squared", 0.3, basis)
    rows = optimum(Problem(features, labels, weights, [group], 1e-2)).rows.clone().requires_grad_()
    change = rows - reference
    outside = change - change @ basis @ basis.T
    loss = torch.nn.functional.cross_entropy(features @ rows.T, labels) + 0.3 * outside.square().sum()
    (loss + 0.5e-2 * rows.square().sum()).backward()
    assert rows.grad is not None
    assert float(rows.grad.norm()) < 1e-7


def test_strong_norm_penalty_keeps_old_rows_exactly():
    session = make_session(old_penalty="norm")
    session.beta_base = 50.0
    found = optimum(make_problem(session))
    assert torch.equal(found.rows[: len(session.base_start)], session.base_reference)


@pytest.mark.parametrize("shots", [1, 5])
def test_no_minimum_is_refused(shots):
    separable = make_session(regularizer="none", weight_decay=0.0, shots=(shots,), d=60)
    with pytest.raises(ValueError, match="with weight decay 0 and separable data no minimum exists"):
        optimum(make_problem(separable))


def test_a_minimum_without_weight_decay_is_found_where_penalties_hold_all_rows():
    session = make_session(regularizer="target", weight_decay=0.0, shots=(5,), copies=3, old_penalty="squared")
    start = torch.cat([r.detach() for r in session.start()])
    found = optimum(make_problem(session))
    assert minimal_subgradient(session, found.rows) < 1e-6 * minimal_subgradient(session, start)


def test_errors_state_rule_and_value():
    row = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="strength must not be negative; got -1"):
        RowGroup(row, strength=-1.0)
    with pytest.raises(ValueError, match="penalty must be one of none, norm, squared; got 'l1'"):
        RowGroup(row, penalty="l1")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_loss_is_right_where_probabilities_underflow(dtype):
    features = torch.eye(2, dtype=dtype)
    rows = torch.tensor([[5000.0, 0.0], [0.0, 3.0]], dtype=dtype)
    problem = Problem(features, torch.tensor([1, 1]), torch.tensor([0.5, 0.5], dtype=dtype), [RowGroup(rows)])
    loss = sgd(
        problem, SgdOptions(max_steps=1)
    ).loss  # by hand: 5000 for the first example, log(1 + e^-3) for the other
    assert float(loss) == pytest.approx((5000 + math.log1p(math.exp(-3.0))) / 2, rel=1e-6)


def test_the_loss_is_right_beside_a_problem_that_has_diverged():
    """The first problem has no numbers any more; the second's probabilities underflow, as above."""
    features = torch.eye(2).expand(2, 2, 2)
    rows = torch.tensor([[[torch.nan, 0.0], [0.0, 3.0]], [[5000.0, 0.0], [0.0, 3.0]]])
    problem = Problem(features, torch.ones(2, 2, dtype=torch.int64), torch.full((2, 2), 0.5), [RowGroup(rows)])
    loss = sgd(problem, SgdOptions(max_steps=1)).loss
    assert float(loss[1]) == pytest.approx((5000 + math.log1p(math.exp(-3.0))) / 2, rel=1e-6)


def test_a_change_too_small_for_its_type_is_pulled_back_by_a_finite_factor():
    strength, is_norm = torch.full((1, 3), 0.2), torch.tensor([True, True, False])
    none, tiny, squared = pull_strength(strength, is_norm, torch.tensor([[0.0, 1e-40, 1.0]]))[0]
    assert (float(none), float(squared)) == (0.0, pytest.approx(0.4))
    assert 1e36 < float(tiny) < math.inf


def still_session() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two problems: features, labels of three novel classes, known rows, targets."""
    generator = torch.Generator().manual_seed(3)
    shapes = ((2, 7, 5), (2, 9, 5), (2, 3, 5))
    features, known, targets = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return features, torch.tensor([[0, 1, 2, 0, 1, 2, 0], [2, 2, 1, 1, 0, 0, 1]]), known, targets


def still_problem(e: slice = slice(None)) -> Problem:
    features, labels, known, targets = (tensor[e] for tensor in still_session())
    weights = torch.full(labels.shape, 1 / 7, dtype=torch.float64)
    group = RowGroup(torch.zeros_like(targets), targets, "squared", 0.05)
    return Problem(features, labels, weights, [group], 1e-3, still=standing_still(features, known))


def still_objective(rows: Tensor, e: int) -> Tensor:
    """The whole softmax, known classes first, on full weights; weight decay left out."""
    features, labels, known, targets = (tensor[e] for tensor in still_session())
    logits = features @ torch.cat([known, rows]).T
    return torch.nn.functional.cross_entropy(logits, labels + 9) + 0.05 * (rows - targets).square().sum()


def test_classes_that_stand_still_take_their_share_of_the_softmax():
    found = optimum(still_problem()).rows
    for e in range(2):
        rows = found[e].clone().requires_grad_()
        (still_objective(rows, e) + 0.5e-3 * rows.square().sum()).backward()
        assert rows.grad is not None
        assert float(rows.grad.norm()) < 1e-7


def test_sgd_beside_classes_that_stand_still():
    options = SgdOptions(learning_rate=0.1, momentum=0.9, max_steps=30, tolerance=0.0)
    found = sgd(still_problem(), options)
    whole = still_problem()
    assert whole.still is not None
    group = replace(whole.groups[0], start=whole.groups[0].start[0], reference=whole.groups[0].reference[0])  # type: ignore[index]
    single = Problem(whole.features[0], whole.labels[0], whole.sample_weight[0], [group], 1e-3, whole.still[0])
    torch.testing.assert_close(sgd(single, options).rows, found.rows[0], rtol=1e-12, atol=1e-14)
    for e in range(2):
        rows = torch.zeros(3, 5, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.SGD([rows], lr=0.1, momentum=0.9, weight_decay=1e-3)
        losses = []
        for _ in range(30):
            optimiser.zero_grad()
            losses.append(still_objective(rows, e))
            losses[-1].backward()
            optimiser.step()
        torch.testing.assert_close(found.rows[e], rows.detach(), rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(found.loss[e], losses[-1].detach(), rtol=1e-10, atol=1e-12)


def test_classes_that_stand_still_in_a_batch_of_problems():
    first, second = still_problem(slice(0, 1)), still_problem(slice(1, 2))
    torch.testing.assert_close(optimum(concatenate([first, second])).rows, optimum(still_problem()).rows)
    with pytest.raises(ValueError, match="must have the same shapes"):
        concatenate([first, replace(second, still=None)])
    wider = RowGroup(torch.zeros(1, 4, 5).double(), torch.zeros(1, 4, 5).double(), "squared", 0.05)
    with pytest.raises(ValueError, match="must have the same shapes"):
        concatenate([first, replace(second, groups=[wider])])
    with pytest.raises(ValueError, match=r"still must have the shape \(1, 7\); got \(7,\)"):
        replace(first, still=torch.zeros(7))
