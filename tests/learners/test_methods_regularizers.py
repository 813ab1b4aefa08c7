"""Targets, projectors and warnings of the regularizers, each against its formula written out."""

import warnings

import numpy as np
import pytest
import torch

from subspan.engine.contract import Base, Memory
from subspan.engine.sessions import session_of
from subspan.learners.linear_map import fit_ridge
from subspan.learners.registry import create_method
from subspan.learners.subspace import DegenerateSpanWarning, span_basis


def normal(*shape, seed=0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# Without the mean


@pytest.mark.parametrize("spec", ["finetune", "subspace", "semantic", "linear_map"])
def test_without_mean_equals_learning_from_features_that_lack_it(spec):
    """Against the projection as a matrix, put by hand before the features of the support and of both memories."""
    width, mean = 9, normal(9, seed=3) + 2
    base = Base(normal(5, width), means=normal(5, width, seed=4) + 2, embeddings=normal(5, 3, seed=5), origin=mean)
    without = torch.eye(width, dtype=torch.float64) - torch.outer(mean, mean) / mean.square().sum()
    rows = torch.cat([base.rows, normal(2, width, seed=6)])

    def session(change):
        return session_of(
            (normal(4, width, seed=7) + 2) @ change,
            torch.tensor([7, 7, 8, 8]),
            (7, 8),
            base_memory=Memory((normal(5, width, seed=8) + 2) @ change, torch.arange(5)),
            novel_memory=Memory((normal(2, width, seed=9) + 2) @ change, torch.tensor([5, 6])),
            embeddings=normal(2, 3, seed=10),
        )

    def learned(hidden, change):
        method = create_method(
            spec, max_steps=50, without_mean=hidden, **({"rank_tolerance": 1e-6} if spec == "subspace" else {})
        )
        return method.learn(method.start(base).after(rows=rows, references=rows), session(change)).rows

    identity = torch.eye(width, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateSpanWarning)
        found, by_hand, plain = learned(True, identity), learned(False, without), learned(False, identity)
    np.testing.assert_allclose(found, by_hand, atol=1e-12)
    assert (found - plain).abs().max() > 1e-3


def test_a_mean_of_zero_is_no_direction():
    base = Base(normal(5, 12), origin=torch.zeros(12, dtype=torch.float64))
    rows = [learn(create_method("finetune", max_steps=20, without_mean=hidden), base).rows for hidden in (False, True)]
    assert torch.equal(*rows)


def test_without_mean_needs_class_means():
    assert create_method("finetune").needs == frozenset()
    assert create_method("finetune", without_mean=True).needs == {"means"}
    assert create_method("semantic", without_mean=True).needs == {"means", "embeddings"}


def test_what_a_common_mean_does_to_fine_tuning_and_how_it_is_undone():
    """Base rows ignore the mean; a row learned from the support alone takes it up and outbids them on every image."""
    width, base_count = 12, 6
    mean = torch.zeros(width, dtype=torch.float64)
    mean[-1] = 8.0
    rows = torch.eye(base_count, width, dtype=torch.float64) * 3
    base = Base(rows, means=rows + mean)
    support = torch.eye(width, dtype=torch.float64)[base_count].repeat(5, 1) * 3 + mean + 0.3 * normal(5, width)
    queries = (rows + mean).repeat_interleave(20, 0) + 0.3 * normal(120, width, seed=1)
    labels = torch.arange(base_count).repeat_interleave(20)
    session = session_of(support, torch.full((5,), base_count), (base_count,))
    kept = {}
    for hidden in (False, True):
        method = create_method("finetune", without_mean=hidden, learning_rate=0.05, max_steps=300)
        after = method.learn(method.start(base), session)
        kept[hidden] = (method.scores(after, queries).argmax(-1) == labels).double().mean()
        assert (method.scores(after, support).argmax(-1) == base_count).all()
    assert kept[False] < 0.2
    assert kept[True] > 0.95


# Subspace


def least_squares_projection(vector, rows):
    """The nearest point to a vector (d,) in the span of rows (C, d), by least squares rather than by a basis."""
    coefficients = np.linalg.lstsq(rows.T, vector, rcond=None)[0]
    return rows.T @ coefficients


@pytest.mark.parametrize("basis", ["svd", "qr"])
def test_subspace_targets_are_the_nearest_points_of_the_span(basis):
    base, novel = normal(5, 12), normal(3, 12, seed=1)
    targets = create_method("subspace", basis=basis).targets(Base(base), novel, None)
    expected = [least_squares_projection(row, base.numpy()) for row in novel.numpy()]
    np.testing.assert_allclose(targets, expected, atol=1e-10)


def test_a_basis_is_orthonormal_and_its_projector_is_one():
    basis = span_basis(normal(5, 12)).numpy()
    projector = basis @ basis.T
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-12)
    np.testing.assert_allclose(projector @ projector, projector, atol=1e-12)
    np.testing.assert_allclose(projector @ normal(5, 12).numpy().T, normal(5, 12).numpy().T, atol=1e-12)


def test_svd_leaves_out_the_direction_that_training_never_shaped():
    """Rows whose sum is nearly zero: 6 rows, 5 directions; QR keeps the sixth."""
    rows = normal(6, 20)
    rows = rows - rows.mean(0) + 1e-4 * normal(1, 20, seed=3)
    singular = np.linalg.svd(rows.numpy(), compute_uv=False)
    assert singular[5] < 0.01 * singular[0] < singular[4]
    assert span_basis(rows, "svd").shape == (20, 5)
    assert span_basis(rows, "qr").shape == (20, 6)
    assert span_basis(rows, "svd", tolerance=1e-9).shape == (20, 6)
    last = np.linalg.svd(rows.numpy())[2][5]  # the direction of the least singular value
    assert np.linalg.norm(span_basis(rows, "svd").numpy().T @ last) < 1e-6
    assert np.linalg.norm(span_basis(rows, "qr").numpy().T @ last) > 0.999


def learn(method, base, novel_count=1, embeddings=None):
    classes = range(len(base.rows), len(base.rows) + novel_count)
    support = normal(2 * novel_count, base.rows.shape[1], seed=7)
    labels = torch.tensor(classes).repeat_interleave(2)
    return method.learn(method.start(base), session_of(support, labels, classes, embeddings=embeddings))


def test_a_span_of_everything_warns_with_its_numbers():
    with pytest.warns(DegenerateSpanWarning, match="the 8 base rows span all 6 feature dimensions.*does nothing"):
        held = learn(create_method("subspace", max_steps=20), Base(normal(8, 6)))
    free = learn(create_method("finetune", max_steps=20, weight_decay=5e-4), Base(normal(8, 6)))
    np.testing.assert_allclose(held.rows, free.rows, atol=1e-10)  # so it says the truth


def test_a_tiny_span_warns_with_its_numbers():
    with pytest.warns(DegenerateSpanWarning, match="the 4 base rows span only 4 of 30 feature dimensions.*tightly"):
        learn(create_method("subspace", max_steps=2), Base(normal(4, 30)))
    repeated = normal(4, 30).repeat(5, 1)
    with pytest.warns(DegenerateSpanWarning, match="the 20 base rows span only 4 of 30 feature dimensions"):
        learn(create_method("subspace", max_steps=2), Base(repeated))


def test_a_span_of_good_size_does_not_warn(recwarn):
    learn(create_method("subspace", max_steps=2), Base(normal(12, 30)))
    assert not [w for w in recwarn if issubclass(w.category, DegenerateSpanWarning)]


def test_a_strong_pull_leaves_nothing_outside_the_span():
    base = Base(normal(12, 30))
    outside = []
    for gamma in (0.0, 50.0):
        row = learn(create_method("subspace", gamma=gamma, solver="optimum"), base).rows[-1].numpy()
        outside.append(np.linalg.norm(row - least_squares_projection(row, base.rows.numpy())))
    assert outside[1] < 0.02 * outside[0]


# Semantic


def test_semantic_targets_are_mixtures_of_base_rows():
    base, e_base, e_novel, tau = normal(4, 7), normal(4, 3, seed=1), normal(2, 3, seed=2), 0.7
    targets = create_method("semantic", tau=tau).targets(Base(base, embeddings=e_base), base[:2], e_novel)
    for c in range(2):
        weights = [np.exp(float(sum(e_base[j, k] * e_novel[c, k] for k in range(3))) / tau) for j in range(4)]
        expected = sum(w * base[j].numpy() for j, w in enumerate(weights)) / sum(weights)
        np.testing.assert_allclose(targets[c], expected, rtol=1e-12)


def test_an_unknown_name_is_pulled_to_the_mean_base_row():
    base = Base(normal(4, 7), embeddings=normal(4, 3, seed=1))
    target = create_method("semantic").targets(base, base.rows[:1], torch.zeros(1, 3, dtype=torch.float64))
    np.testing.assert_allclose(target[0], base.rows.mean(0), rtol=1e-12)


def test_a_low_temperature_chooses_the_nearest_class():
    base = Base(normal(4, 7), embeddings=torch.eye(4, dtype=torch.float64))
    target = create_method("semantic", tau=1e-3).targets(base, base.rows[:1], base.embeddings[2:3])
    np.testing.assert_allclose(target[0], base.rows[2], rtol=1e-12)


@pytest.mark.parametrize("tau", [0, -1])
def test_temperature_must_be_positive(tau):
    with pytest.raises(ValueError, match=f"tau must be positive; got {tau}"):
        create_method("semantic", tau=tau)


# Linear mapping


def map_objective(weight, inputs, rows, ridge):
    """What the paper's fit descends: torch's mean squared error, weight decay as SGD has it (w/2)."""
    return torch.nn.functional.mse_loss(inputs @ weight, rows) + ridge / 2 * (weight**2).sum()


@pytest.mark.parametrize(("classes", "width"), [(9, 4), (4, 9)])
def test_ridge_is_where_gradient_descent_ends(classes, width):
    inputs, rows, ridge = normal(classes, width), normal(classes, 3, seed=1), 0.01
    weight = torch.zeros(width, 3, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9)
    for _ in range(2000):
        optimizer.zero_grad()
        map_objective(weight, inputs, rows, ridge).backward()
        optimizer.step()
    torch.testing.assert_close(fit_ridge(inputs, rows, ridge), weight.detach(), rtol=0, atol=1e-9)
    at_minimum = fit_ridge(inputs, rows, ridge).requires_grad_()
    (gradient,) = torch.autograd.grad(map_objective(at_minimum, inputs, rows, ridge), at_minimum)
    assert float(gradient.abs().max()) < 1e-12


def test_without_ridge_the_map_is_the_least_one_that_fits():
    inputs, rows = normal(4, 9), normal(4, 3, seed=1)
    found = fit_ridge(inputs, rows, 0.0).numpy()
    np.testing.assert_allclose(found, np.linalg.lstsq(inputs.numpy(), rows.numpy(), rcond=None)[0], atol=1e-10)


def test_the_papers_gradient_descent_takes_torchs_steps_and_approaches_the_ridge():
    base = Base(normal(6, 5), embeddings=normal(6, 3, seed=1))
    novel = normal(2, 3, seed=2)
    exact = create_method("linear_map", ridge=0.02).targets(base, base.rows[:2], novel)
    gaps = []
    for steps in (10, 100, 3000):
        method = create_method("linear_map", fit="gradient", fit_steps=steps, fit_rate=0.5, ridge=0.02)
        gaps.append(float((method.targets(base, base.rows[:2], novel) - exact).norm() / exact.norm()))
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-8

    # The same steps by torch.optim.SGD on a linear layer, from the start that one step of size 0 leaves in place.
    still = create_method("linear_map", fit="gradient", fit_rate=0.0, fit_steps=1, ridge=0.02)
    with_one = torch.cat([base.embeddings, torch.ones(6, 1, dtype=torch.float64)], dim=1)
    start = still._fit_gradient(with_one, base.rows, 0.02)
    layer = torch.nn.Linear(3, 5, dtype=torch.float64)
    layer.load_state_dict({"weight": start[:3].T, "bias": start[3]})
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5, weight_decay=0.02)
    for _ in range(10):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(layer(base.embeddings), base.rows).backward()
        optimizer.step()
    ten = create_method("linear_map", fit="gradient", fit_steps=10, fit_rate=0.5, ridge=0.02)
    torch.testing.assert_close(ten.targets(base, base.rows[:2], novel), layer(novel).detach(), rtol=0, atol=1e-12)
    assert float(start.abs().max()) <= 1 / 3**0.5


def test_targets_are_where_a_strong_pull_takes_novel_rows():
    base = Base(normal(4, 7), embeddings=normal(4, 3, seed=1))
    embeddings = normal(1, 3, seed=2)
    for name in ("semantic", "linear_map"):
        method = create_method(name, gamma=1e4, solver="optimum", weight_decay=1e-6)
        target = method.targets(base, base.rows[:1], embeddings)
        np.testing.assert_allclose(learn(method, base, embeddings=embeddings).rows[-1], target[0], atol=1e-3)


# Starts and options


def test_uniform_starts_follow_their_seed_alone():
    """Within +-1/sqrt(d), by seed, alike in both dtypes. After one step of rate 0 rows lie where they began."""
    base = Base(normal(12, 25))

    def start(seed, dtype=torch.float64):
        session = session_of(normal(2, 25).to(dtype), torch.tensor([12, 13]), (12, 13), seeds=(seed,))
        method = create_method("finetune", learning_rate=0.0, max_steps=1)
        return method.learn(method.start(Base(base.rows.to(dtype))), session).rows[12:]

    assert float(start(1).abs().max()) <= 1 / 5
    assert float(start(1).abs().max()) > 0.15
    assert not torch.equal(start(1), start(2))
    assert torch.equal(start(1).float(), start(1, torch.float32))


@pytest.mark.parametrize("name", ["gamma", "beta_base", "beta_novel", "weight_decay"])
@pytest.mark.parametrize("value", [-0.5, float("nan")])
def test_strengths_must_not_be_negative(name, value):
    with pytest.raises(ValueError, match=f"{name} must not be negative; got {value}"):
        create_method("subspace", **{name: value})
