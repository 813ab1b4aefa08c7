"""The graph of a catalogue in ONNX: prepared pixels in, probabilities and familiarity out, for any number of images.

A backbone in torch is exported together with the head. One that is an ONNX file already is put between a graph that
normalises pixels and one that scores features.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.snapshot import Snapshot
from subspan.pretrained.backbone import Backbone, Preprocessing, TorchBackbone
from subspan.pretrained.onnx_file import OnnxBackbone
from subspan.values import normalised

PIXELS, PROBABILITIES, FAMILIARITY = "pixels", "probabilities", "familiarity"
INPUTS, FEATURES = "subspan_inputs", "subspan_features"
DOMAIN = ""  # the operators of ONNX itself


class Normalise(nn.Module):
    """Prepared pixels uint8 (n, size, size, 3) to inputs of a network (n, 3, size, size)."""

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__()
        self.preprocessing = preprocessing

    def forward(self, pixels: Tensor) -> Tensor:
        return normalised(pixels, self.preprocessing.mean, self.preprocessing.std)


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


def make_graph(snapshot: Snapshot, backbone: Backbone) -> Any:
    """The whole catalogue as an ``onnx.ModelProto``."""
    normalise, score, size = Normalise(backbone.preprocessing), Score(snapshot), backbone.preprocessing.size
    pixels = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    name = f"backbone '{backbone.name}' with method '{snapshot.classifier.method_}'"
    if isinstance(backbone, TorchBackbone):
        whole = nn.Sequential(normalise, deepcopy(backbone.module).cpu(), score)
        return _export(whole, pixels, PIXELS, [PROBABILITIES, FAMILIARITY], name)
    if isinstance(backbone, OnnxBackbone):
        before = _export(normalise, pixels, PIXELS, [INPUTS], name)
        after = _export(score, torch.zeros(2, backbone.dim), FEATURES, [PROBABILITIES, FAMILIARITY], name)
        return _join(before, backbone, after)
    raise CatalogueError(f"backbone '{backbone.name}' is neither torch nor an ONNX file, and cannot be exported")


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


def _join(before: Any, backbone: OnnxBackbone, after: Any) -> Any:
    """Three graphs in a row, of one version of ONNX's operators: the newest that any of them uses."""
    import onnx
    import onnx.compose
    import onnx.numpy_helper

    try:
        network = onnx.load(backbone.file, load_external_data=not backbone.weights)
        for tensor in network.graph.initializer if backbone.weights else ():
            if tensor.name in backbone.weights:
                tensor.CopyFrom(onnx.numpy_helper.from_array(backbone.weights[tensor.name], tensor.name))
        opset = max(_opset(part) for part in (before, network, after))
        before, network, after = (_at_opset(part, opset) for part in (before, network, after))
        for part in (before, network, after):
            part.ir_version = max(before.ir_version, network.ir_version, after.ir_version)
            part.ClearField("metadata_props")  # the parts' own, which the whole does not keep
        before = onnx.compose.add_prefix(before, "normalise/", rename_inputs=False, rename_outputs=False)
        network = onnx.compose.add_prefix(network, "network/")
        taken, given = f"network/{backbone.input}", network.graph.output[0].name
        seen = onnx.compose.merge_models(before, network, io_map=[(INPUTS, taken)], outputs=[given])
        return onnx.compose.merge_models(seen, after, io_map=[(given, FEATURES)], outputs=[PROBABILITIES, FAMILIARITY])
    except Exception as error:  # onnx raises kinds of its own for graphs it cannot convert or join
        reason = " ".join(str(error).split())
        raise CatalogueError(f"backbone '{backbone.name}' cannot be joined with the head: {reason}") from error


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
