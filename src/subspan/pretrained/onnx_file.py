"""A network in an ONNX file: ``onnx:backbone.onnx``, one input (n, 3, size, size), first output (n, d).

The file's metadata may hold ``subspan.preprocessing``, a JSON object with the fields of `Preprocessing`; without it the
usual one of ImageNet is taken at the size of the input.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch

from subspan.arrays import FloatArray
from subspan.images.decode import usable_cores
from subspan.pretrained.backbone import Backbone, BackboneError, Pixels, Preprocessing, check_weights
from subspan.pretrained.registry import in_one_line, optional_import, register_source
from subspan.values import tensor_of

METADATA = "subspan.preprocessing"


class OnnxBackbone(Backbone):
    """A network run by onnxruntime, three times as fast on a CPU as the same one in torch."""

    def __init__(self, file: Path, digest: str | None = None) -> None:
        import onnxruntime

        self.file = file
        self.name = f"onnx:{file.resolve()}"
        sha = hashlib.sha256(file.read_bytes())
        weights = file.with_name(file.name + ".data")
        if weights.exists():
            sha.update(weights.read_bytes())
        self.digest = sha.hexdigest()
        check_weights(self.name, self.digest, digest)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = min(usable_cores(), torch.get_num_threads())
        # From the file's place, not its bytes: large networks keep their weights in a file beside it.
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].shape[1] not in (3, None):
            shapes = ", ".join(f"{one.name} {one.shape}" for one in inputs)
            raise BackboneError(f"'{file}' must have one input (n, 3, height, width); it has {shapes}")
        if isinstance(inputs[0].shape[0], int):
            raise BackboneError(
                f"'{file}' must take any number of images; it takes {inputs[0].shape[0]} at a time (export it with a "
                "dynamic batch)"
            )
        self.input = inputs[0].name
        stored = self._session.get_modelmeta().custom_metadata_map.get(METADATA)
        side = inputs[0].shape[2] if isinstance(inputs[0].shape[2], int) else 224
        if stored is None:
            self.preprocessing = Preprocessing(size=side, resize=round(side / 0.875))
        else:
            self.preprocessing = Preprocessing.from_dict(json.loads(stored))
        size = self.preprocessing.size
        probe = self.forward(np.zeros((1, size, size, 3), np.uint8))
        if probe.ndim != 2:
            raise BackboneError(f"the first output of '{file}' must be features (n, d); it is {probe.shape}")
        self.dim = probe.shape[1]

    def forward(self, pixels: Pixels) -> FloatArray:
        inputs = self.preprocessing.normalise(tensor_of(pixels)).contiguous().numpy()
        return np.asarray(self._session.run(None, {self.input: inputs})[0], np.float32)


@register_source("onnx:FILE")
def onnx_file(place: str, digest: str | None) -> OnnxBackbone:
    """The network of a file; needs the extra ``onnx``."""
    with optional_import(f"onnx:{place}", "pip install 'subspan[onnx]'"):
        import onnxruntime  # noqa: F401
    if not Path(place).is_file():
        raise BackboneError(f"backbone 'onnx:{place}' cannot be loaded: there is no such file")
    try:
        return OnnxBackbone(Path(place), digest)
    except BackboneError:
        raise
    except Exception as error:  # onnxruntime raises kinds of its own
        raise BackboneError(f"backbone 'onnx:{place}' cannot be loaded: {in_one_line(error)}") from error
