"""A network in an ONNX file: ``onnx:backbone.onnx``, one input (n, 3, size, size), first output (n, d).

The file's metadata may hold ``subspan.preprocessing``, a JSON object with the fields of `Preprocessing`; without it the
usual one of ImageNet is taken at the size of the input.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from subspan.arrays import FloatArray
from subspan.images.decode import usable_cores
from subspan.pretrained.backbone import Backbone, BackboneError, Pixels, Preprocessing
from subspan.pretrained.registry import register_source

METADATA = "subspan.preprocessing"


class OnnxBackbone(Backbone):
    """A network run by onnxruntime, three times as fast on a CPU as the same one in torch."""

    def __init__(self, file: Path, digest: str | None = None) -> None:
        import onnxruntime

        if not file.is_file():
            raise FileNotFoundError("there is no such file")
        self.file = file
        sha = hashlib.sha256(file.read_bytes())
        weights = file.with_name(file.name + ".data")
        if weights.exists():
            sha.update(weights.read_bytes())
        super().__init__(f"onnx:{file.resolve()}", sha.hexdigest(), digest)
        options = onnxruntime.SessionOptions()
        torch = sys.modules.get("torch")  # where it is, it knows how many threads the program wants
        options.intra_op_num_threads = min(usable_cores(), torch.get_num_threads()) if torch else usable_cores()
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
        inputs = np.ascontiguousarray(self.preprocessing.inputs(pixels))
        return np.asarray(self._session.run(None, {self.input: inputs})[0], np.float32)


@register_source("onnx:FILE", needs="onnxruntime", install="pip install 'subspan[onnx]'")
def onnx_file(place: str, digest: str | None) -> OnnxBackbone:
    """The network of a file; needs the extra ``onnx``."""
    return OnnxBackbone(Path(place), digest)
