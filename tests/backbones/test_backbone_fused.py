"""Kernels of our own beside PyTorch's operations in float64; without a GPU Triton's interpreter runs them."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from subspan.backbones import create_backbone, pad_inputs, use_statistics
from subspan.backbones.blocks import BatchNorm, activated, added_and_pooled, conv

pytest.importorskip("triton", reason="the fused kernels need triton, which is not installed")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# Channels that fill tiles and that do not, few rows and many, even sides and odd.
SHAPES = [(3, 4, 5, 5), (2, 64, 6, 8), (1, 70, 9, 7), (2, 130, 3, 2), (40, 16, 12, 12)]
BOUNDS = {torch.float32: 3e-6, torch.bfloat16: 8e-3}


def draw(shape: tuple[int, ...], seed: int) -> Tensor:
    """Maps whose channels differ in mean and width."""
    generator = torch.Generator().manual_seed(seed)
    widths, means = 0.5 + torch.rand(shape[1], generator=generator), torch.randn(shape[1], generator=generator)
    return torch.randn(shape, generator=generator) * widths[:, None, None] + means[:, None, None]


def fused_norm(channels: int, seed: int) -> BatchNorm:
    """A normalisation with weights of both signs."""
    norm, generator = BatchNorm(channels), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        norm.weight.copy_(torch.randn(channels, generator=generator))
        norm.bias.copy_(torch.randn(channels, generator=generator))
    use_statistics(norm, "fused")
    return norm


def distance(computed: Tensor, expected: Tensor) -> float:
    expected = expected.double()
    return float((computed.double().cpu() - expected).norm() / expected.norm())


def compare(
    fused: Callable[..., Tensor],
    plain: Callable[..., Tensor],
    maps: Sequence[Tensor],
    parts: Sequence[tuple[nn.Module, nn.Module]],
    dtype: torch.dtype,
) -> None:
    """Outcome, gradients and buffers of one function and of its plain form in float64, for parts of equal weights."""
    for part, plain_part in parts:
        plain_part.double().load_state_dict(part.state_dict())
        part.to(DEVICE)
    given = [each.to(DEVICE, dtype, memory_format=torch.channels_last).requires_grad_() for each in maps]
    exact = [each.detach().double().cpu().requires_grad_() for each in given]
    found, expected = fused(*given), plain(*exact)
    assert found.dtype == dtype
    assert found.is_contiguous(memory_format=torch.channels_last)
    way = torch.randn(expected.shape, generator=torch.Generator().manual_seed(9)).to(dtype)
    found.backward(way.to(DEVICE))
    expected.backward(way.double())
    pairs = [(found.detach(), expected.detach())]
    pairs += [(mine.grad, theirs.grad) for mine, theirs in zip(given, exact, strict=True)]  # type: ignore[misc]
    for part, plain_part in parts:
        pairs += [(a.grad, b.grad) for a, b in zip(part.parameters(), plain_part.parameters(), strict=True)]  # type: ignore[misc]
        pairs += zip(part.buffers(), plain_part.buffers(), strict=True)
    for mine, theirs in pairs:
        assert mine.shape == theirs.shape
        assert distance(mine, theirs) < BOUNDS[dtype]


@pytest.mark.parametrize("slope", [0.1, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_normalised_and_activated(shape: tuple[int, ...], slope: float) -> None:
    norm, plain = fused_norm(shape[1], 1), nn.BatchNorm2d(shape[1])
    compare(
        lambda maps: activated(norm, maps, slope),
        lambda maps: functional.leaky_relu(plain(maps), slope),
        [draw(shape, 2)],
        [(norm, plain)],
        torch.float32,
    )


@pytest.mark.parametrize("shape", [*SHAPES[:-1], pytest.param(SHAPES[-1], marks=pytest.mark.slow)])
def test_added_and_pooled(shape: tuple[int, ...]) -> None:
    first, second = fused_norm(shape[1], 1), fused_norm(shape[1], 2)
    plain, other_plain = nn.BatchNorm2d(shape[1]), nn.BatchNorm2d(shape[1])
    compare(
        lambda maps, others: added_and_pooled(first, maps, second, others, 0.1),
        lambda maps, others: functional.max_pool2d(
            functional.leaky_relu(plain(maps) + other_plain(others), 0.1), kernel_size=2
        ),
        [draw(shape, 3), draw(shape, 4)],
        [(first, plain), (second, other_plain)],
        torch.float32,
    )


def test_in_half_precision() -> None:
    shape = (4, 64, 9, 8)
    norm, plain = fused_norm(64, 1), nn.BatchNorm2d(64)
    compare(
        lambda maps: activated(norm, maps, 0.1),
        lambda maps: functional.leaky_relu(plain(maps), 0.1),
        [draw(shape, 2)],
        [(norm, plain)],
        torch.bfloat16,
    )


@pytest.mark.parametrize(("inputs", "outputs", "size"), [(3, 8, 3), (3, 70, 3), (1, 5, 1), (4, 64, 1)])
def test_convolution_of_images(inputs: int, outputs: int, size: int) -> None:
    own, plain = conv(inputs, outputs, size), nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False).double()
    use_statistics(own, "fused")
    plain.load_state_dict(own.state_dict())
    own.to(DEVICE)
    images = torch.randn(3, inputs, 9, 7, generator=torch.Generator().manual_seed(0))
    found, expected = own(images.to(DEVICE)), plain(images.double())
    assert found.is_contiguous(memory_format=torch.channels_last)
    way = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    found.backward(way.to(DEVICE))
    expected.backward(way.double())
    assert distance(found.detach(), expected.detach()) < 1e-6
    assert distance(own.weight.grad, plain.weight.grad) < 1e-6  # type: ignore[arg-type]


def test_only_images_without_a_gradient_take_the_kernel_for_few_channels() -> None:
    """It gives no gradient by the images: whoever asks for one gets the usual convolution."""
    own = conv(3, 64, 3).to(DEVICE)
    use_statistics(own, "fused")
    images = torch.randn(2, 3, 5, 5, device=DEVICE, requires_grad=True)
    own(images).sum().backward()
    assert images.grad is not None

    def operation(output: Tensor) -> str:
        assert output.grad_fn is not None
        return output.grad_fn.name()

    assert operation(own(images)) == operation(own.eval()(images.detach())) == "ConvolutionBackward0"
    assert operation(own.train()(images.detach())) != "ConvolutionBackward0"
    pad_inputs(own, 8)
    assert operation(own(images.detach())) == "ConvolutionBackward0"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("resnet18-tian", {"dropblock": "none"}, marks=pytest.mark.slow),
        ("resnet18-tian", {"dropblock": "none", "se": True, "pool": "blurred"}),
        ("resnet12-tian", {"dropblock": "none", "norm": "group"}),
        ("resnet18-he", {}),
    ],
)
def test_networks_have_the_same_features_and_gradients(name: str, options: dict[str, object]) -> None:
    images = torch.rand(4, 3, 36, 36, generator=torch.Generator().manual_seed(0))
    fused, exact = (create_backbone(name, width=0.05, seed=1, **options).train() for _ in range(2))
    use_statistics(fused.to(DEVICE, memory_format=torch.channels_last), "fused")
    features, expected = fused(images.to(DEVICE)), exact.double()(images.double())
    assert distance(features.detach(), expected.detach()) < 1e-5
    for out in (features, expected):
        out.square().sum().backward()
    for (label, mine), theirs in zip(fused.named_parameters(), exact.parameters(), strict=True):
        assert distance(mine.grad, theirs.grad) < 1e-3, label
    for mine, theirs in zip(fused.buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(mine.cpu().double(), theirs.double(), rtol=1e-5, atol=1e-5)


def test_evaluation_and_plain_means_do_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trained network in use, and statistics taken anew over all images, ask for no kernels of ours."""
    norm, plain = fused_norm(4, 1).cpu(), nn.BatchNorm2d(4)
    plain.load_state_dict(norm.state_dict())
    monkeypatch.setattr(torch.ops.subspan, "normalise", None)
    maps = draw((3, 4, 5, 5), 2)
    torch.testing.assert_close(norm.eval()(maps), plain.eval()(maps))
    norm.train().momentum = plain.train().momentum = None
    torch.testing.assert_close(norm(maps), plain(maps))
    torch.testing.assert_close(norm.running_var, plain.running_var)


def test_one_value_of_a_channel_is_refused() -> None:
    with pytest.raises(ValueError, match=r"more than one value of each channel, got \(1, 4, 1, 1\)"):
        fused_norm(4, 1).to(DEVICE)(torch.ones(1, 4, 1, 1, device=DEVICE))


@pytest.mark.slow
def test_compiled_networks_take_them_for_what_they_are() -> None:
    """The compiler sees operations with shapes, orders of memory and gradients, and nothing of their kernels."""
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    found = []
    for compiled in (False, True):
        backbone = create_backbone("resnet12-tian", width=0.05, seed=1, dropblock="none").train().to(DEVICE)
        use_statistics(backbone.to(memory_format=torch.channels_last), "fused")
        model = torch.compile(backbone, dynamic=False, backend="aot_eager") if compiled else backbone
        model(images).square().sum().backward()
        found.append([each.grad for each in backbone.parameters()] + list(backbone.buffers()))
    for expected, computed in zip(*found, strict=True):
        torch.testing.assert_close(computed, expected, rtol=1e-4, atol=1e-5)


def test_convolution_of_maps_whose_channels_do_not_fill_tiles() -> None:
    own, plain = conv(10, 7, 3), nn.Conv2d(10, 7, 3, padding=1, bias=False)
    use_statistics(own, "fused")
    compare(own, plain, [draw((3, 10, 9, 6), 1)], [(own, plain)], torch.float32)


@pytest.mark.slow
def test_every_kernel_compiles_for_hopper_without_a_gpu(tmp_path: Path) -> None:
    """What the interpreter runs the compiler may refuse."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, str(Path(__file__).with_name("compile_fused.py"))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    shared = {name: int(size) for name, size in map(str.split, done.stdout.splitlines())}
    assert {"normalise", "add_and_pool_backward", "convolve_thin", "track"} <= shared.keys()
    assert max(shared.values()) <= 227 * 1024
