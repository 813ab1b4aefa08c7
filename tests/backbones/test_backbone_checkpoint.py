"""Weights on disk, and files with the names of the authors' repositories."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from subspan.backbones.checkpoint import import_tian, read_tensors, write_tensors
from subspan.backbones.registry import create_backbone


def authors_state(blocks: tuple[int, ...], classes: int, *, bias: bool = False) -> dict[str, Tensor]:
    """A state dict with the names and shapes of rfs, written out by hand."""
    generator = torch.Generator().manual_seed(0)
    state: dict[str, Tensor] = {}

    def batch_norm(name: str, channels: int) -> None:
        for key, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            state[f"{name}.{key}"] = torch.full((channels,), value)
        state[f"{name}.num_batches_tracked"] = torch.tensor(5)

    inputs = 3
    for stage, (count, outputs) in enumerate(zip(blocks, (64, 160, 320, 640), strict=True), start=1):
        for place in range(count):
            at = f"layer{stage}.{place}"
            for i, channels in ((1, inputs), (2, outputs), (3, outputs)):
                state[f"{at}.conv{i}.weight"] = torch.randn(outputs, channels, 3, 3, generator=generator) * 0.02
                batch_norm(f"{at}.bn{i}", outputs)
            if place == 0:
                state[f"{at}.downsample.0.weight"] = torch.randn(outputs, inputs, 1, 1, generator=generator) * 0.02
                batch_norm(f"{at}.downsample.1", outputs)
            inputs = outputs
    state["classifier.weight"] = torch.randn(classes, 640, generator=generator)
    if bias:
        state["classifier.bias"] = torch.randn(classes, generator=generator)
    return state


@pytest.mark.parametrize("parallel", [False, True])
def test_authors_files_load(tmp_path: Path, parallel: bool) -> None:
    state = authors_state((1, 1, 1, 1), 5, bias=parallel)
    written = {f"module.{k}": v for k, v in state.items()} if parallel else state
    torch.save({"opt": {"epochs": 100}, "model": written}, tmp_path / "resnet12_last.pth")
    network = import_tian(tmp_path / "resnet12_last.pth", "resnet12-tian")
    assert torch.equal(network.head.weight, state["classifier.weight"])
    assert (network.head.bias is not None) is parallel
    loaded = network.backbone.state_dict()
    assert torch.equal(loaded["layer3.0.conv2.weight"], state["layer3.0.conv2.weight"])
    assert network.eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 5)


def test_a_block_computes_what_the_authors_block_computes(tmp_path: Path) -> None:
    """The first stage, spelled out with functional calls on the raw tensors."""
    state = authors_state((1, 1, 1, 1), 5)
    torch.save({"model": state}, tmp_path / "a.pth")
    backbone = import_tian(tmp_path / "a.pth", "resnet12-tian").backbone.eval()
    images = torch.rand(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    f = nn.functional
    one = torch.ones(64)

    def norm(x: Tensor) -> Tensor:
        return f.batch_norm(x, torch.zeros(64), one, one, torch.zeros(64))

    x = f.leaky_relu(norm(f.conv2d(images, state["layer1.0.conv1.weight"], padding=1)), 0.1)
    x = f.leaky_relu(norm(f.conv2d(x, state["layer1.0.conv2.weight"], padding=1)), 0.1)
    x = norm(f.conv2d(x, state["layer1.0.conv3.weight"], padding=1))
    x = x + norm(f.conv2d(images, state["layer1.0.downsample.0.weight"]))
    expected = f.max_pool2d(f.leaky_relu(x, 0.1), 2)
    block = backbone.get_submodule("layer1.0")
    torch.testing.assert_close(block(images, backbone.get_submodule("clock")), expected)


def test_other_networks_are_refused_with_names(tmp_path: Path) -> None:
    torch.save({"model": authors_state((1, 1, 1, 1), 5)}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=r"is no resnet18-tian: missing \['layer3.1.bn1.bias'"):
        import_tian(tmp_path / "a.pth", "resnet18-tian")
    torch.save({"model": {"weight": torch.zeros(1)}}, tmp_path / "b.pth")
    with pytest.raises(ValueError, match=r"holds no 'classifier.weight'; its names begin with weight"):
        import_tian(tmp_path / "b.pth")


class Unwelcome:
    """Something only an unrestricted pickle can bring back."""


def test_files_with_objects_are_refused(tmp_path: Path) -> None:
    torch.save({"model": Unwelcome()}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match=r"a\.pth holds more than tensors and plain values, and was not read$"):
        import_tian(tmp_path / "a.pth")


def test_tensors_come_back_bit_for_bit(tmp_path: Path) -> None:
    state = create_backbone("resnet12-tian", width=0.05).to(memory_format=torch.channels_last).state_dict()
    write_tensors(tmp_path / "w.safetensors", state, {"epochs": 3})
    back, meta = read_tensors(tmp_path / "w.safetensors")
    assert meta == {"epochs": 3}
    assert all(torch.equal(back[name], value) for name, value in state.items())
    assert [path.name for path in tmp_path.iterdir()] == ["w.safetensors"]
    (tmp_path / "broken.safetensors").write_bytes(b"\0" * 4)
    with pytest.raises(ValueError, match=r"broken.safetensors is no readable safetensors file"):
        read_tensors(tmp_path / "broken.safetensors")
