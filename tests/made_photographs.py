"""Photographs of coloured noise, and small real networks that see them: for all tests that start from images.

PyTorch and onnx are imported where a network is made: photographs need neither.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from subspan.pretrained.backbone import Preprocessing, TorchBackbone

if TYPE_CHECKING:
    from torch import nn

COLOURS = {
    "red": (200, 40, 40),
    "green": (40, 190, 50),
    "blue": (50, 50, 210),
    "yellow": (210, 200, 40),
    "grey": (120, 120, 120),
    "pink": (230, 120, 170),
    "brown": (120, 70, 30),
}
BASE = ("red", "green", "blue", "yellow")
SIDE, WIDTH = 16, 24
PREPROCESSING = Preprocessing(size=SIDE, resize=SIDE)


def photographs(name: str, count: int, seed: int = 0, spread: float = 40) -> list[NDArray[np.uint8]]:
    """Pictures (20, 26, 3) of one colour with noise; every picture also has a shade of its own."""
    rng = np.random.default_rng([seed, sorted(COLOURS).index(name)])
    shades = np.array(COLOURS[name]) + rng.normal(0, spread / 2, (count, 1, 1, 3))
    return list(np.clip(shades + rng.normal(0, spread, (count, 20, 26, 3)), 0, 255).astype(np.uint8))


def encoded(pixels: NDArray[np.uint8], kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def write_folders(root: Path, counts: dict[str, int], seed: int = 0) -> Path:
    for name, count in counts.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for i, pixels in enumerate(photographs(name, count, seed)):
            (root / name / f"{i:02d}.png").write_bytes(encoded(pixels))
    return root


def network() -> "nn.Module":
    """Random filters and a pooling: enough to tell colours apart."""
    import torch
    from torch import nn

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, WIDTH, 4, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def with_preprocessing() -> "tuple[nn.Module, Preprocessing]":
    return network(), PREPROCESSING


def tiny_backbone() -> TorchBackbone:
    return TorchBackbone("tiny", network(), PREPROCESSING)


def write_onnx(path: Path, batch: int | str = "n", opset: int = 18) -> Path:
    """The same network as an ONNX file, written node by node."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    filters = network()[0]  # pyright: ignore[reportIndexIssue]
    constants = [
        numpy_helper.from_array(filters.weight.detach().numpy(), "weight"),
        numpy_helper.from_array(filters.bias.detach().numpy(), "bias"),
    ]
    nodes = [
        helper.make_node("Conv", ["images", "weight", "bias"], ["maps"], strides=[4, 4]),
        helper.make_node("Relu", ["maps"], ["positive"]),
        helper.make_node("GlobalAveragePool", ["positive"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, SIDE, SIDE])
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, [batch, WIDTH])
    graph = helper.make_graph(nodes, "tiny", [images], [features], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(model, path)
    return path
