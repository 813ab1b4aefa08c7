"""Residual networks: parameter counts against hand computations, shapes, modes, seeds."""

from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from subspan.backbones.network import feature_dim
from subspan.backbones.parts.blocks import BatchNorm, Convolution
from subspan.backbones.registry import create_backbone, list_backbones, register_backbone
from subspan.backbones.tian import largest, largest_blurred


def parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def tian_count(blocks: tuple[int, ...], *, se: bool) -> int:
    """Convolutions without bias, two values per normalised channel, gates with bias."""
    total, inputs = 0, 3
    for count, outputs in zip(blocks, (64, 160, 320, 640), strict=True):
        for place in range(count):
            total += 9 * inputs * outputs + 2 * 9 * outputs**2 + 3 * 2 * outputs
            if place == 0:
                total += inputs * outputs + 2 * outputs
            if se:
                hidden = outputs // 4
                total += 2 * outputs * hidden + hidden + outputs
            inputs = outputs
    return total


@pytest.mark.parametrize(("name", "blocks"), [("resnet12-tian", (1, 1, 1, 1)), ("resnet18-tian", (1, 1, 2, 2))])
@pytest.mark.parametrize("se", [False, True])
def test_networks_of_tian_have_the_parameters_counted_by_hand(name: str, blocks: tuple[int, ...], se: bool) -> None:
    assert parameters(create_backbone(name, se=se)) == tian_count(blocks, se=se)


def test_published_counts() -> None:
    assert parameters(create_backbone("resnet12-tian")) == 12_424_320  # 12.4 M in Tian et al. and later papers
    assert parameters(create_backbone("resnet18-he")) == 11_689_512 - 513_000  # torchvision's less its last layer


@pytest.mark.parametrize(("name", "dim"), [("resnet12-tian", 640), ("resnet18-tian", 640), ("resnet18-he", 512)])
def test_features_of_84_pixel_images(name: str, dim: int) -> None:
    backbone = create_backbone(name).eval()
    with torch.no_grad():
        assert backbone(torch.zeros(1, 3, 84, 84)).shape == (1, dim)
    assert feature_dim(backbone) == dim


def test_maps_halve_at_each_stage() -> None:
    backbone = create_backbone("resnet18-tian", width=0.05).eval()
    seen: list[int] = []
    for stage in range(1, 5):
        stage_module = backbone.get_submodule(f"layer{stage}")
        list(stage_module.children())[-1].register_forward_hook(lambda _m, _i, out: seen.append(out.shape[-1]))
    backbone(torch.zeros(1, 3, 84, 84))
    assert seen == [42, 21, 10, 5]


@pytest.mark.parametrize("size", [8, 13])
def test_a_blurred_pool_is_means_of_largest_values(size: int) -> None:
    """Against loops over places in numpy, borders included."""
    maps = np.random.default_rng(0).normal(size=(2, 3, size, size))
    last = size - 1
    everywhere = np.zeros((2, 3, last, last))
    for i, j in product(range(last), repeat=2):
        everywhere[:, :, i, j] = maps[:, :, i : i + 2, j : j + 2].max((2, 3))
    got = largest_blurred(torch.from_numpy(maps)).numpy()
    assert got.shape == largest(torch.from_numpy(maps)).shape == (2, 3, size // 2, size // 2)
    for i, j in product(range(size // 2), repeat=2):
        around = everywhere[:, :, max(2 * i - 1, 0) : 2 * i + 2, max(2 * j - 1, 0) : 2 * j + 2]
        np.testing.assert_allclose(got[:, :, i, j], around.mean((2, 3)), rtol=1e-12)


def test_blurred_pools_change_less_when_the_image_is_shifted() -> None:
    image = torch.rand(1, 3, 65, 65, generator=torch.Generator().manual_seed(0))
    moved = []
    for pool in ("max", "blurred"):
        backbone, maps = create_backbone("resnet12-tian", width=0.1, pool=pool).eval(), list[torch.Tensor]()
        backbone.get_submodule("layer4.0").register_forward_hook(lambda _m, _i, out, maps=maps: maps.append(out))
        with torch.no_grad():
            for i in (0, 1):
                backbone(image[..., i : i + 64, i : i + 64])
        first, second = maps
        inner = (..., slice(1, -1), slice(1, -1))  # what enters at the border is another image
        moved.append(float((first[inner] - second[inner]).norm() / first[inner].norm()))
    assert moved[1] < 0.7 * moved[0]
    with pytest.raises(ValueError, match="pool must be one of max, blurred, got 'mean'"):
        create_backbone("resnet12-tian", pool="mean")


def test_weights_are_a_function_of_the_seed_alone() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = create_backbone("resnet12-tian", width=0.05, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    again, other = (create_backbone("resnet12-tian", width=0.05, seed=seed) for seed in (3, 4))
    weight = "layer2.0.conv2.weight"
    assert torch.equal(first.state_dict()[weight], again.state_dict()[weight])
    assert not torch.equal(first.state_dict()[weight], other.state_dict()[weight])


def test_convolutions_have_the_spread_of_fan_out() -> None:
    weight = create_backbone("resnet12-tian").state_dict()["layer4.0.conv2.weight"]
    assert weight.std().item() == pytest.approx((2 / (9 * 640)) ** 0.5, rel=0.01)


def test_every_parameter_is_filled() -> None:
    for name in list_backbones():
        for key, value in create_backbone(name, width=0.05, se=True).state_dict().items():
            assert torch.isfinite(value.float()).all(), key


def test_a_block_of_tian_computes_what_the_authors_block_computes() -> None:
    """The first stage of their ResNet-12, spelled out with functional calls on the raw tensors."""
    backbone = create_backbone("resnet12-tian").eval()
    images, state = torch.rand(2, 3, 12, 12, generator=torch.Generator().manual_seed(1)), backbone.state_dict()
    f = nn.functional

    def layer(x: torch.Tensor, name: str, norm: str, padding: int = 1) -> torch.Tensor:
        kernel, statistics = state[f"layer1.0.{name}.weight"], (torch.zeros(64), torch.ones(64))
        assert {f"layer1.0.{norm}.{key}" for key in ("weight", "bias", "running_mean", "running_var")} <= state.keys()
        return f.batch_norm(f.conv2d(x, kernel, padding=padding), *statistics)

    x = f.leaky_relu(layer(images, "conv1", "bn1"), 0.1)
    x = layer(f.leaky_relu(layer(x, "conv2", "bn2"), 0.1), "conv3", "bn3")
    x = x + layer(images, "downsample.0", "downsample.1", padding=0)
    expected = f.max_pool2d(f.leaky_relu(x, 0.1), 2)
    torch.testing.assert_close(backbone.get_submodule("layer1.0")(images, backbone.get_submodule("clock")), expected)


def test_any_module_is_a_backbone() -> None:
    assert feature_dim(nn.Sequential(nn.Conv2d(3, 5, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())) == 5
    with pytest.raises(ValueError, match=r"to features \(n, d\), got shape \(1, 5, 82, 82\)"):
        feature_dim(nn.Conv2d(3, 5, 3))


def test_registry_names_what_it_knows() -> None:
    with pytest.raises(ValueError, match="unknown backbone 'resnet99'; known are resnet12-tian"):
        create_backbone("resnet99")
    with pytest.raises(ValueError, match="'resnet12-tian' is registered already"):
        register_backbone("resnet12-tian")(lambda generator: nn.Identity())


def test_batch_statistics_by_sums_are_those_of_pytorch() -> None:
    """Output, gradients and running statistics, in double precision."""
    generator = torch.Generator().manual_seed(0)
    values = 3 * torch.randn(6, 4, 5, 5, generator=generator, dtype=torch.float64) + torch.arange(4.0)[:, None, None]
    weights = torch.randn(6, 4, 5, 5, generator=generator, dtype=torch.float64)
    found = []
    for by_sums in (False, True):
        norm = BatchNorm(4).double()
        take = norm.by_sums if by_sums else norm
        with torch.no_grad():
            norm.weight.copy_(torch.tensor([1.0, -2.0, 0.5, 3.0]))
            norm.bias.copy_(torch.tensor([0.0, 1.0, 2.0, -1.0]))
        inputs = values.clone().requires_grad_()
        outputs = take(inputs)
        (outputs * weights).sum().backward()
        take(2 * values)
        gradients = [inputs.grad, norm.weight.grad, norm.bias.grad]
        found.append([outputs.detach(), *gradients, norm.running_mean, norm.running_var, norm.num_batches_tracked])
    for expected, computed in zip(*found, strict=True):
        torch.testing.assert_close(computed, expected, rtol=1e-9, atol=1e-9)


def test_batch_statistics_are_by_sums_where_they_are_compiled_and_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    norm, values = BatchNorm(3), torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    calls: list[bool] = []
    usual = norm.by_sums
    monkeypatch.setattr(norm, "by_sums", lambda given: calls.append(True) or usual(given))
    torch.compiler.reset()
    compiled = torch.compile(norm, backend="eager")
    for take, training, expected in ((norm, True, 0), (compiled, False, 0), (compiled, True, 1), (norm, False, 0)):
        calls.clear()
        norm.train(training)
        take(values)
        assert len(calls) == expected


def test_batch_statistics_by_sums_in_half_precision() -> None:
    norm, plain = BatchNorm(8), nn.BatchNorm2d(8)
    values = torch.randn(4, 8, 6, 6, generator=torch.Generator().manual_seed(0)).bfloat16()
    found = norm.by_sums(values)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, plain(values))
    torch.testing.assert_close(norm.running_var, plain.running_var)


def test_a_kernel_of_one_place_with_a_stride_is_pytorchs() -> None:
    """Output and gradients; few channels, channels last: where oneDNN may write past its memory."""
    own, plain = Convolution(5, 7, 1, stride=2).double(), nn.Conv2d(5, 7, 1, stride=2, bias=False).double()
    with torch.no_grad():
        plain.weight.copy_(own.weight)
    values = torch.randn(2, 5, 9, 9, generator=torch.Generator().manual_seed(0)).double()
    found = []
    for kernel, given in ((own, values.to(memory_format=torch.channels_last)), (plain, values)):
        inputs = given.detach().requires_grad_()
        output = kernel(inputs)
        output.square().sum().backward()
        found.append([output.detach(), inputs.grad, kernel.weight.grad])
    for computed, expected in zip(*found, strict=True):
        torch.testing.assert_close(computed, expected, rtol=1e-12, atol=1e-12)


def test_batch_statistics_by_sums_of_a_constant_channel_are_finite() -> None:
    inputs = torch.full((3, 2, 4, 4), 1000.0, requires_grad=True)
    outputs = BatchNorm(2).by_sums(inputs)
    outputs.sum().backward()
    assert torch.isfinite(outputs).all()
    assert inputs.grad is not None
    assert torch.isfinite(inputs.grad).all()
