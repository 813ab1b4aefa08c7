"""The graph of a catalogue in ONNX: prepared pixels in, probabilities and familiarity out, for any number of images.

Each network stands between nodes that normalise its views and nodes that average their features; what scores the
features of all networks comes last. A network in torch, and the head, are written by torch's exporter.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import onnx
import onnx.compose
import onnx.version_converter
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.snapshot import Snapshot
from subspan.pretrained.backbone import Backbone, Preprocessing, TorchBackbone
from subspan.pretrained.eye import Eye
from subspan.pretrained.onnx_file import OnnxBackbone

PIXELS, PROBABILITIES, FAMILIARITY = "pixels", "probabilities", "familiarity"
FEATURES = "features"
DOMAIN = ""  # the operators of ONNX itself


class Score(nn.Module):
    """Features (n, d) to probabilities (n, C) and familiarity (n,)."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.score = snapshot.classifier.exported(torch.float32)
        self.evidence = snapshot.classifier.exported(torch.float32, evidence=True)
        self.temperature = snapshot.temperature

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.score(features) / self.temperature
        return torch.softmax(scores, dim=1), torch.logsumexp(self.evidence(features), dim=1)


def inputs_of(backbone: Backbone) -> list[str]:
    """What the graph's inputs are called, one for each view."""
    count = len(backbone.views)
    return [PIXELS] if count == 1 else [f"{PIXELS}_{number}" for number in range(1, count + 1)]


def make_graph(snapshot: Snapshot, backbone: Backbone) -> Any:
    """The whole catalogue as an ``onnx.ModelProto``."""
    name = f"backbone '{backbone.name}' with method '{snapshot.classifier.method_}'"
    networks = backbone.parts if isinstance(backbone, Eye) else [(backbone, backbone.views)]
    head = _export(Score(snapshot), torch.zeros(2, backbone.dim), FEATURES, [PROBABILITIES, FAMILIARITY], name)
    try:
        return _joined(backbone, [(network, *_network(network, name), views) for network, views in networks], head)
    except CatalogueError:
        raise
    except Exception as error:  # onnx raises kinds of its own for graphs it cannot convert or join
        reason = " ".join(str(error).split())
        raise CatalogueError(f"backbone '{backbone.name}' cannot be joined with the head: {reason}") from error


def _network(network: Backbone, name: str) -> tuple[Any, str]:
    """A network from normalised images to features as an ``onnx.ModelProto``, and the name of its input."""
    if isinstance(network, TorchBackbone):
        images = torch.zeros(2, 3, network.preprocessing.size, network.preprocessing.size)
        return _export(deepcopy(network.module).cpu(), images, "images", [FEATURES], name), "images"
    if not isinstance(network, OnnxBackbone):
        raise CatalogueError(f"backbone '{network.name}' is neither torch nor an ONNX file, and cannot be exported")
    model = onnx.load(network.file, load_external_data=not network.weights)
    for tensor in model.graph.initializer if network.weights else ():
        if tensor.name in network.weights:
            tensor.CopyFrom(numpy_helper.from_array(network.weights[tensor.name], tensor.name))
    return model, network.input


def _joined(backbone: Backbone, parts: Sequence[tuple[Backbone, Any, str, Sequence[Preprocessing]]], head: Any) -> Any:
    """One graph, of one version of ONNX's operators: the newest that any part uses."""
    opset = max(_opset(model) for model in (head, *(model for _, model, *_ in parts)))
    left, inputs, nodes, tensors, seen, models = iter(inputs_of(backbone)), [], [], [], [], []
    for number, (network, model, taken, views) in enumerate(parts, 1):
        prefix, shown = f"network_{number}/", []
        model = onnx.compose.add_prefix(_at_opset(model, opset), prefix)
        for view in views:
            pixels = next(left)
            inputs.append(helper.make_tensor_value_info(pixels, TensorProto.UINT8, ["n", view.size, view.size, 3]))
            shown.append(f"{prefix}{pixels}/normalised")
            _add_normalised(nodes, tensors, pixels, shown[-1], view)
        nodes += [helper.make_node("Concat", shown, [prefix + taken], axis=0), *model.graph.node]
        seen.append(model.graph.output[0].name)
        if isinstance(backbone, Eye):
            seen[-1] = _add_mean(nodes, tensors, seen[-1], len(views), network.dim, backbone.orders[number - 1])
        models.append(model)
    head = onnx.compose.add_prefix(_at_opset(head, opset), "head/", rename_inputs=False, rename_outputs=False)
    nodes += [helper.make_node("Sum", seen, [FEATURES]), *head.graph.node]
    models.append(head)
    tensors += [tensor for model in models for tensor in model.graph.initializer]
    return helper.make_model(
        helper.make_graph(nodes, "catalogue", inputs, head.graph.output, tensors),
        opset_imports={one.domain: one for model in models for one in model.opset_import}.values(),
        functions=[function for model in models for function in model.functions],
        ir_version=max(model.ir_version for model in models),
    )


def _add_normalised(nodes: list[Any], tensors: list[Any], pixels: str, result: str, view: Preprocessing) -> None:
    """Nodes from pixels (n, size, size, 3) to inputs of a network (n, 3, size, size)."""
    mean, std = (np.asarray(values, np.float32) for values in (view.mean, view.std))
    scale, shift = f"{result}/scale", f"{result}/shift"
    tensors += [numpy_helper.from_array(1 / (255 * std), scale), numpy_helper.from_array(mean / std, shift)]
    nodes += [
        helper.make_node("Cast", [pixels], [f"{result}/cast"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [f"{result}/cast", scale], [f"{result}/scaled"]),
        helper.make_node("Sub", [f"{result}/scaled", shift], [f"{result}/shifted"]),
        helper.make_node("Transpose", [f"{result}/shifted"], [result], perm=[0, 3, 1, 2]),
    ]


def _add_mean(
    nodes: list[Any], tensors: list[Any], features: str, views: int, width: int, order: NDArray[np.int64]
) -> str:
    """Nodes from features of all views (views n, width) to their ordered mean at length one, whose name is given."""
    parts = ("shape", "axis", "pads", "order", "apart", "mean", "unit", "padded", "ordered")
    shape, axis, pads, places, apart, mean, unit, padded, ordered = (f"{features}/{part}" for part in parts)
    tensors += [
        numpy_helper.from_array(np.array([views, -1, width]), shape),
        numpy_helper.from_array(np.array([0]), axis),
        numpy_helper.from_array(np.array([0, 0, 0, len(order) - width]), pads),
        numpy_helper.from_array(order, places),
    ]
    nodes += [
        helper.make_node("Reshape", [features, shape], [apart]),
        helper.make_node("ReduceMean", [apart, axis], [mean], keepdims=0),
        helper.make_node("LpNormalization", [mean], [unit], axis=1),
        helper.make_node("Pad", [unit, pads], [padded]),
        helper.make_node("Gather", [padded, places], [ordered], axis=1),
    ]
    return ordered


def _export(module: nn.Module, example: Tensor, taken: str, given: list[str], name: str) -> Any:
    with _quiet():
        try:
            program = torch.onnx.export(
                module.eval(),
                (example,),
                dynamo=True,
                dynamic_shapes=({0: torch.export.Dim("n", min=1, max=4096)},),
                input_names=[taken],
                output_names=given,
                verbose=False,
            )
        except Exception as error:  # of a network or a method that is no graph, torch says so in many ways and pages
            raise CatalogueError(f"torch cannot write {name} as ONNX: {type(error).__name__}") from error
    if program is None:
        raise CatalogueError(f"torch cannot write {name} as ONNX")
    return program.model_proto


def _opset(model: Any) -> int:
    return next(entry.version for entry in model.opset_import if entry.domain == DOMAIN)


def _at_opset(model: Any, opset: int) -> Any:
    import onnx.version_converter

    return model if _opset(model) == opset else onnx.version_converter.convert_version(model, opset)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch's exporter from telling which packages it could have used, and what it will drop one day."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)
