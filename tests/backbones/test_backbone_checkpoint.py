"""Weights on disk: they come back bit for bit, and of other people's files nothing but tensors is taken."""

from pathlib import Path

import pytest
import torch

from subspan.backbones.checkpoint import read_tensors, read_weights, write_tensors
from subspan.backbones.registry import create_backbone


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


class Unwelcome:
    """Something only an unrestricted pickle can bring back."""


def test_other_peoples_files_give_a_state_and_nothing_else(tmp_path: Path) -> None:
    weight, averaged, file = torch.arange(3.0), torch.ones(3), tmp_path / "a.pth"
    for content, expected in (
        ({"layer.weight": weight}, weight),
        ({"opt": {"epochs": 100}, "model": {"module.layer.weight": weight}}, weight),
        ({"state_dict": {"layer.weight": weight}, "state_dict_ema": {"layer.weight": averaged}}, averaged),
    ):
        torch.save(content, file)
        [(name, found)] = read_weights(file).items()
        assert (name, found.tolist()) == ("layer.weight", expected.tolist())
    write_tensors(tmp_path / "a.safetensors", {"layer.weight": weight}, {})
    assert torch.equal(read_weights(tmp_path / "a.safetensors")["layer.weight"], weight)
    torch.save({"model": Unwelcome()}, file)
    with pytest.raises(ValueError, match=r"a\.pth holds more than tensors and plain values, and was not read$"):
        read_weights(file)
    torch.save({"epoch": 3}, file)
    with pytest.raises(ValueError, match="must hold a state dict, or a dictionary with one under state_dict_ema"):
        read_weights(file)
