"""The fused update against torch's own optimiser and against the formula."""

import pytest
import torch
from torch import nn

from subspan.train.loss import mixed_cross_entropy
from subspan.train.optimiser import Sgd


def tiny() -> nn.Sequential:
    torch_generator = torch.Generator().manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))
    for p in net.parameters():
        nn.init.normal_(p, generator=torch_generator)
    return net.to(memory_format=torch.channels_last)


def test_iterates_equal_torchs_sgd() -> None:
    ours, theirs = tiny().double(), tiny().double()
    reference = torch.optim.SGD(theirs.parameters(), lr=0.03125, momentum=0.9, weight_decay=5e-4)
    sgd = Sgd(ours.named_parameters(), momentum=0.9, weight_decay=5e-4, decay_on="all")
    for step in range(5):
        x = torch.randn(6, 3, 2, 2, generator=torch.Generator().manual_seed(step)).double()
        for net in (ours, theirs):
            net.zero_grad()
            net(x).square().mean().backward()
        sgd.step(torch.tensor(0.03125))  # exact in float32, the rate's type
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-12)


def test_decay_on_weights_spares_biases_and_norms() -> None:
    net = tiny()
    sgd = Sgd(net.named_parameters(), momentum=0.0, weight_decay=0.5, decay_on="weights")
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    sgd.step(torch.tensor(1.0))
    for name, p in net.named_parameters():
        factor = 0.5 if p.ndim > 1 else 1.0
        torch.testing.assert_close(p.detach(), factor * before[name])


def test_a_parameter_without_gradient_is_an_error() -> None:
    sgd = Sgd(tiny().named_parameters(), momentum=0.9, weight_decay=0.0, decay_on="all")
    with pytest.raises(RuntimeError, match=r"a parameter of shape \(4, 3, 1, 1\) got no gradient"):
        sgd.step(torch.tensor(0.1))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_of_mixed_labels_equals_torchs_on_soft_targets(smoothing: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 4, generator=generator)
    labels, partners = (torch.randint(0, 4, (5,), generator=generator) for _ in range(2))
    soft = 0.7 * nn.functional.one_hot(labels, 4) + 0.3 * nn.functional.one_hot(partners, 4)
    expected = nn.functional.cross_entropy(logits, soft, label_smoothing=smoothing)
    torch.testing.assert_close(mixed_cross_entropy(logits, labels, partners, torch.tensor(0.7), smoothing), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("margin", [2.0, -1.5])
def test_a_margin_is_taken_from_the_true_logit_before_torchs_loss(smoothing: float, margin: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 4, generator=generator)
    labels, partners = (torch.randint(0, 4, (5,), generator=generator) for _ in range(2))
    expected = torch.zeros(())
    for weight, chosen in ((0.7, labels), (0.3, partners)):
        less = logits - margin * nn.functional.one_hot(chosen, 4)
        expected = expected + weight * nn.functional.cross_entropy(less, chosen, label_smoothing=smoothing)
    got = mixed_cross_entropy(logits, labels, partners, torch.tensor(0.7), smoothing, torch.tensor(margin))
    torch.testing.assert_close(got, expected)
