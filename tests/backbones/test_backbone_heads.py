"""Heads against the formulas."""

import numpy as np
import pytest
import torch

from subspan.backbones.heads import create_head


def test_linear_head_is_an_inner_product() -> None:
    head = create_head("linear", 6, 4)
    assert [name for name, _ in head.named_parameters()] == ["weight"]
    features = torch.rand(3, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(head(features), features @ head.weight.T)


def test_cosine_head_is_the_scaled_cosine() -> None:
    head = create_head("cosine", 6, 4, scale=10.0)
    features = torch.rand(3, 6, generator=torch.Generator().manual_seed(0))
    f, w = features.numpy(), head.weight.detach().numpy()
    cosines = (f @ w.T) / np.linalg.norm(f, axis=1)[:, None] / np.linalg.norm(w, axis=1)[None]
    np.testing.assert_allclose(head(features).detach().numpy(), 10 * cosines, rtol=1e-5)


def test_euclidean_head_is_the_negative_squared_distance() -> None:
    head = create_head("euclidean", 6, 4)
    features = torch.rand(3, 6, generator=torch.Generator().manual_seed(0))
    expected = -torch.cdist(features.double(), head.weight.double()).square()
    torch.testing.assert_close(head(features).double(), expected, rtol=1e-5, atol=1e-5)
    rows, bias = head.linear_form()
    torch.testing.assert_close((features @ rows.T + bias).softmax(1), head(features).softmax(1))


def test_the_scale_is_not_learned() -> None:
    head = create_head("cosine", 6, 4)
    head(torch.ones(2, 6)).sum().backward()
    assert head.scale.grad is None  # type: ignore[union-attr]
    assert head.scale.item() == 16.0  # type: ignore[union-attr]


def test_heads_compute_in_float32_under_autocast() -> None:
    head = create_head("cosine", 6, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert head(torch.ones(2, 6, dtype=torch.bfloat16)).dtype == torch.float32


def test_errors_name_rule_and_value() -> None:
    with pytest.raises(ValueError, match="head must be one of linear, cosine, euclidean, got 'quadratic'"):
        create_head("quadratic", 6, 4)
