"""The fused update against torch's own optimiser, Muon against a loop over single kernels, the loss and the rates."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from subspan.train.parts.optimiser import Muon, Sgd, learning_rates, orthogonal
from subspan.train.parts.step import loss_and_correct
from subspan.train.recipe import Recipe, find_recipe


def tiny() -> nn.Sequential:
    torch_generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))
    for p in net.parameters():
        nn.init.normal_(p, generator=torch_generator)
    return net.to(memory_format=torch.channels_last)


def test_iterates_equal_torchs_sgd() -> None:
    ours, theirs = tiny().double(), tiny().double()
    reference = torch.optim.SGD(theirs.parameters(), lr=0.03125, momentum=0.9, weight_decay=5e-4)
    sgd = Sgd(ours.named_parameters(), momentum=0.9, weight_decay=5e-4)
    for step in range(5):
        x = torch.randn(6, 3, 2, 2, generator=torch.Generator().manual_seed(step)).double()
        for net in (ours, theirs):
            net.zero_grad()
            net(x).square().mean().backward()
        sgd.step(torch.tensor(0.03125))  # exact in float32, the rate's type
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-12)


def several_kernels(memory_format: torch.memory_format) -> nn.Sequential:
    """Kernels of one shape twice, with more rows than columns and with fewer; a bias and a linear layer beside them."""
    net = nn.Sequential(
        *(nn.Conv2d(3, 8, 1, bias=False), nn.Conv2d(8, 5, 3), nn.Conv2d(5, 5, 3, bias=False)),
        *(nn.Conv2d(5, 5, 3, bias=False), nn.Flatten(), nn.Linear(5, 3)),
    ).double()
    generator = torch.Generator().manual_seed(0)
    for p in net.parameters():
        nn.init.normal_(p, generator=generator)
    return net.to(memory_format=memory_format)  # pyright: ignore[reportCallIssue]


def one_by_one(value: np.ndarray, gradients: list[np.ndarray], share: float) -> np.ndarray:
    """Muon's rule for one kernel in float64, written out from the paper's text."""
    momentum = np.zeros_like(value)
    length = np.sqrt((value**2).sum())
    for gradient in gradients:
        momentum = 0.95 * momentum + gradient
        ahead = (gradient + 0.95 * momentum).reshape(len(value), -1)
        left, singular, right = np.linalg.svd(ahead, full_matrices=False)
        singular = singular / np.sqrt((singular**2).sum())
        for _ in range(5):
            singular = 3.4445 * singular - 4.7750 * singular**3 + 2.0315 * singular**5
        turned = (left * singular) @ right
        value = value - share * length / np.sqrt(min(turned.shape)) * turned.reshape(value.shape)
        value = value * length / np.sqrt((value**2).sum())
    return value


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["plain", "last"])
def test_muon_equals_a_loop_over_kernels_and_sgd_on_the_rest(memory_format: torch.memory_format) -> None:
    net, other = several_kernels(memory_format), several_kernels(memory_format)
    options = {"momentum": 0.9, "weight_decay": 5e-4}
    muon = Muon(net.named_parameters(), kernel_factor=4.0, **options)
    rest = Sgd([(name, p) for name, p in other.named_parameters() if p.ndim != 4], **options)
    gradients: dict[str, list[np.ndarray]] = {name: [] for name, _ in net.named_parameters()}
    for step in range(4):
        x = torch.randn(6, 3, 7, 7, generator=torch.Generator().manual_seed(step)).double()
        net.zero_grad()
        net(x).square().mean().backward()
        for (name, p), mirrored in zip(net.named_parameters(), other.parameters(), strict=True):
            assert p.grad is not None
            gradients[name].append(p.grad.numpy().copy())
            mirrored.grad = p.grad.clone()
        muon.step(torch.tensor(0.03125))
        rest.step(torch.tensor(0.03125))
    start = dict(several_kernels(memory_format).named_parameters())
    for (name, p), mirrored in zip(net.named_parameters(), other.parameters(), strict=True):
        if p.ndim == 4:
            expected = one_by_one(start[name].detach().numpy(), gradients[name], 0.03125 * 4.0)
            np.testing.assert_allclose(p.detach().numpy(), expected, rtol=1e-9, atol=1e-9)
            assert np.abs(expected - start[name].detach().numpy()).max() > 0.01
        else:
            assert torch.equal(p, mirrored)
    assert set(muon.momenta) == set(gradients)


@pytest.mark.parametrize("shape", [(2, 8, 72), (1, 64, 27), (1, 20, 20)])
def test_orthogonal_keeps_singular_vectors_and_evens_out_values(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).double()
    matrices = matrices / torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True)
    for given, got in zip(matrices.numpy(), orthogonal(matrices).numpy(), strict=True):
        left, singular, right = np.linalg.svd(given, full_matrices=False)
        seen = left.T @ got @ right.T
        np.testing.assert_allclose(seen, np.diag(np.diag(seen)), atol=1e-9)
        held = singular > 0.02 * np.sqrt((singular**2).sum())
        assert np.diag(seen)[held].min() > 0.6
        assert np.diag(seen).max() < 1.25


@pytest.mark.parametrize("smallest", [1.0, 0.1, 1e-3], ids=lambda value: f"down to {value:g}")
def test_orthogonal_in_bf16_stays_near_the_exact_one(smallest: float) -> None:
    """Rounding must not grow: squares of small singular values are below what bf16 holds beside the largest."""
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.linalg.qr(torch.randn(n, 96, generator=generator))[0] for n in (96, 864))
    singular = torch.logspace(0, np.log10(smallest), 96)
    matrix = ((left * singular / torch.linalg.vector_norm(singular)) @ right.T)[None]
    rounded, exact = orthogonal(matrix.bfloat16()), orthogonal(matrix.double())
    assert rounded.dtype == torch.bfloat16
    assert torch.linalg.svdvals(rounded.float()).max() < 1.25
    assert torch.linalg.vector_norm(rounded - exact) < 0.06 * torch.linalg.vector_norm(exact)


def test_zero_gradients_leave_kernels_alone_and_none_is_an_error() -> None:
    net = several_kernels(torch.contiguous_format)
    muon = Muon(net.named_parameters(), kernel_factor=1.0, momentum=0.9, weight_decay=0.5)
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    before = [p.detach().clone() for p in net.parameters()]
    muon.step(torch.tensor(0.125))  # exact in float32, the rate's type
    for p, was in zip(net.parameters(), before, strict=True):
        torch.testing.assert_close(p.detach(), was if p.ndim == 4 else 0.9375 * was, rtol=1e-12, atol=1e-12)
    next(net.parameters()).grad = None
    for optimiser in (muon, Sgd(net.named_parameters(), momentum=0.9, weight_decay=0.0)):
        with pytest.raises(RuntimeError, match=r"a parameter of shape \(8, 3, 1, 1\) got no gradient"):
            optimiser.step(torch.tensor(0.1))


def test_loss_of_mixed_labels_takes_a_share_by_each_label() -> None:
    """By hand; each image has a share of its own, or all have one."""
    generator = torch.Generator().manual_seed(0)
    logits, shares = torch.randn(5, 4, generator=generator), torch.tensor([0.0, 0.25, 0.5, 0.9, 1.0])
    labels, partners = (torch.randint(0, 4, (5,), generator=generator) for _ in range(2))
    surprise = -logits.double().softmax(1).log().numpy()
    for share in (shares, torch.tensor(0.7)):
        each = np.broadcast_to(share.double().numpy(), 5)
        by_hand = [each[i] * surprise[i, labels[i]] + (1 - each[i]) * surprise[i, partners[i]] for i in range(5)]
        loss, correct = loss_and_correct(logits, labels, partners, share)
        assert float(loss) == pytest.approx(np.mean(by_hand), rel=1e-5)
        assert float(correct) == sum(int(surprise[i].argmin()) == labels[i] for i in range(5))


def test_rates_of_the_paper_are_cut_twice() -> None:
    rates = learning_rates(find_recipe("paper"), 468)
    assert len(rates) == 46_800
    np.testing.assert_allclose(
        rates[[0, 60 * 468 - 1, 60 * 468, 80 * 468 - 1, 80 * 468, -1]], [0.05] * 2 + [0.005] * 2 + [0.0005] * 2
    )


def test_rates_may_be_half_a_cosine() -> None:
    rates = learning_rates(Recipe(schedule="cosine", epochs=2), 2)
    expected = [0.05, 0.025 * (1 + math.cos(math.pi / 4)), 0.025, 0.025 * (1 - math.cos(math.pi / 4))]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)
