"""Attention Attractors: the inner minimum, its implicit gradient and its attractors against plain arithmetic."""

import dataclasses

import numpy as np
import pytest
import torch
from quick_parts import quick_run, write_part
from scipy.optimize import minimize

from subspan.engine.contract import Base
from subspan.engine.sessions import learn, session_of
from subspan.learners.published.attractor import Attractor
from subspan.learners.training.attracted_rows import attracted_rows, conjugate_gradients, hessian
from subspan.learners.training.features import TrainingFeatures

E, N, K, C, D = 2, 6, 3, 4, 5
DECAY = 1e-5


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


SUPPORT, LABELS = numbers(E, N, D, seed=1), torch.tensor([[0, 0, 1, 1, 2, 2], [2, 1, 0, 0, 1, 2]])
KNOWN, TARGETS, STRENGTH = numbers(1, C, D, seed=2), numbers(E, K, D, seed=3), numbers(D, seed=4).mul(0.5).exp() * 0.1


def objective(rows: torch.Tensor, e: int) -> torch.Tensor:
    """E(theta) in the words of the paper."""
    logits = SUPPORT[e] @ torch.cat([KNOWN[0], rows]).T
    entropy = torch.nn.functional.cross_entropy(logits, LABELS[e] + C)
    pull = (STRENGTH * (rows - TARGETS[e]) ** 2).sum() / K
    return entropy + DECAY / 2 * (rows**2).sum() + pull


def test_the_inner_minimum_is_scipys():
    found, _ = attracted_rows(SUPPORT, LABELS, KNOWN, TARGETS, STRENGTH, weight_decay=DECAY)

    for e in range(E):

        def value_and_gradient(x: np.ndarray, e: int = e) -> tuple[float, np.ndarray]:
            rows = torch.tensor(x.reshape(K, D), requires_grad=True)
            value = objective(rows, e)
            value.backward()
            assert rows.grad is not None
            return value.item(), rows.grad.numpy().ravel()

        to_the_end = {"gtol": 1e-10, "ftol": 0.0, "maxiter": 10_000}
        exact = minimize(value_and_gradient, np.zeros(K * D), jac=True, method="L-BFGS-B", options=to_the_end)
        np.testing.assert_allclose(found[e].numpy().ravel(), exact.x, atol=1e-5)
        _, at_target = value_and_gradient(TARGETS[e].numpy().ravel())
        _, at_minimum = value_and_gradient(found[e].numpy().ravel())
        assert np.linalg.norm(at_minimum) < 1e-7 * np.linalg.norm(at_target)  # the core's solver promises 1e-8


def test_the_implicit_gradient_by_finite_differences():
    """Of a loss on the rows, by every target and every strength, in float64."""
    weights = numbers(E, K, D, seed=5)

    def loss(targets: torch.Tensor, strength: torch.Tensor) -> torch.Tensor:
        rows, _ = attracted_rows(SUPPORT, LABELS, KNOWN, targets, strength, weight_decay=DECAY)
        return (weights * rows.tanh()).sum()

    targets, strength = TARGETS.clone().requires_grad_(), STRENGTH.clone().requires_grad_()
    loss(targets, strength).backward()
    assert targets.grad is not None
    assert strength.grad is not None
    step = 1e-5
    steps = torch.cat([step * torch.eye(K * D), -step * torch.eye(K * D)]).double().view(-1, K, D)
    for e in range(E):  # every target of a problem moved up, then down: as one batch
        many = [tensor.expand(len(steps), -1, -1) for tensor in (SUPPORT[e : e + 1], KNOWN, TARGETS[e])]
        rows, _ = attracted_rows(many[0], LABELS[e].expand(len(steps), -1), many[1], many[2] + steps, STRENGTH)
        up, down = (weights[e] * rows.tanh()).sum((1, 2)).chunk(2)
        np.testing.assert_allclose(targets.grad[e].ravel(), (up - down) / (2 * step), rtol=1e-5, atol=1e-7)
    for d in range(D):
        change = torch.zeros_like(STRENGTH)
        change[d] = step
        slope = (loss(TARGETS, STRENGTH + change) - loss(TARGETS, STRENGTH - change)) / (2 * step)
        assert float(strength.grad[d]) == pytest.approx(float(slope), rel=1e-5, abs=1e-7)


def test_the_hessian_is_autograds_and_damping_is_added_to_it():
    rows = numbers(E, K, D, seed=6)
    direction = numbers(E, K, D, seed=7)
    product = hessian(rows, SUPPORT, KNOWN, STRENGTH, DECAY)
    for e in range(E):
        exact = torch.autograd.functional.hessian(lambda r, e=e: objective(r, e), rows[e]).reshape(K * D, K * D)  # type: ignore[union-attr]
        np.testing.assert_allclose(product(direction)[e].ravel(), exact @ direction[e].ravel(), rtol=1e-10, atol=1e-12)
        solved = conjugate_gradients(lambda v: product(v) + 0.1 * v, direction, 1e-13)[e].ravel()
        np.testing.assert_allclose(
            solved, torch.linalg.solve(exact + 0.1 * torch.eye(K * D), direction[e].ravel()), rtol=1e-7
        )
    targets = TARGETS.clone().requires_grad_()
    minimum, _ = attracted_rows(SUPPORT, LABELS, KNOWN, targets, STRENGTH, weight_decay=DECAY, damping=0.1)
    minimum.backward(direction)
    at_minimum = hessian(minimum.detach(), SUPPORT, KNOWN, STRENGTH, DECAY)
    g = conjugate_gradients(lambda v: at_minimum(v) + 0.1 * v, direction)
    assert targets.grad is not None
    np.testing.assert_allclose(targets.grad, 2 / K * STRENGTH * g, rtol=1e-9)


def training(bias: bool) -> TrainingFeatures:
    base = numbers(8, D, seed=1).float()
    features = 2 * base[:, None] + numbers(8, 20, D, seed=2).float()
    offsets = 0.1 * numbers(8, seed=3).float() if bias else None
    return TrainingFeatures(features, torch.full((8,), 20), Base(base), "real", offsets)


@pytest.mark.parametrize("bias", [False, True])
def test_a_session_is_solved_at_its_attractors(tmp_path, bias):
    """Earlier novel rows are frozen like base rows; targets are those of the equations."""
    features = training(bias)
    system = Attractor(shots=2)
    system = Attractor(trained=str(write_part(system, features, tmp_path / "part.safetensors", steps=3)))
    base = features.base.mapped(torch.Tensor.double)
    support = numbers(4, D, seed=4)
    if bias:
        assert features.bias is not None
        base = dataclasses.replace(base, rows=torch.cat([base.rows, features.bias.double()[:, None]], dim=1))
        support = torch.cat([support, torch.ones(4, 1, dtype=torch.float64)], dim=1)
    width = D + bias
    trained = system.part(base)
    part = {name: tensor.double().numpy() for name, tensor in trained.tensors.items()}
    known = torch.cat([base.rows, numbers(1, width, seed=5)])
    labels = torch.tensor([9, 10, 9, 10])
    found = learn(system, system.start(base).after(rows=known), session_of(support, labels, (9, 10))).rows
    assert torch.equal(found[:9], known)

    weights = base.rows[:, :D].numpy()
    targets = np.zeros((2, width))
    for k, members in enumerate(([0, 2], [1, 3])):
        mean = support[members, :D].mean(0).numpy()
        cosines = weights @ mean / np.linalg.norm(weights, axis=1) / np.linalg.norm(mean)
        shares = np.exp(part["sharpness"] * cosines)
        values = [
            part["outcome_map"] @ np.tanh(part["hidden_map"] @ w + part["hidden_bias"]) + part["outcome_bias"]
            for w in weights
        ]
        targets[k] = part["common"] + (shares / shares.sum()) @ np.stack(values)
    novel = found[9:].clone().requires_grad_()
    logits = support @ torch.cat([known, novel]).T
    pull = (torch.tensor(np.exp(part["log_strength"])) * (novel - torch.tensor(targets)) ** 2).sum() / 2
    (torch.nn.functional.cross_entropy(logits, labels) + 0.5e-5 * (novel**2).sum() + pull).backward()
    assert novel.grad is not None
    assert float(novel.grad.abs().max()) < 1e-7, "the minimum of E at the attractors"


@pytest.mark.parametrize("pull", ["attention", "static", "none"])
def test_a_part_holds_what_its_pull_needs(pull):
    system = Attractor(pull=pull, shots=1)
    part = system.train_part(training(bias=True), quick_run(system, steps=1, rates=(1e-3,), rate_cuts=()))
    assert ("common" in part, "hidden_map" in part) == (pull != "none", pull == "attention")
    assert part["log_strength"].shape == (D + 1,)  # the bias is drawn, too
    np.testing.assert_allclose(part["log_strength"], np.log(0.1), atol=2e-3)  # one shot begins at 0.1
    assert len(part["log_strength"].unique()) > 1
