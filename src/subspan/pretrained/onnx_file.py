"""A network in an ONNX file: ``onnx:backbone.onnx``, one input (n, 3, size, size), first output (n, d).

The file's metadata may hold ``subspan.preprocessing``, a JSON object with the fields of `Preprocessing`; without it the
usual one of ImageNet is taken at the size of the input.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.images.decode import usable_cores
from subspan.pretrained.backbone import Backbone, BackboneError, Pixels, Preprocessing
from subspan.pretrained.registry import register_source

METADATA = "subspan.preprocessing"


class OnnxBackbone(Backbone):
    """A network run by onnxruntime, several times as fast on a CPU as the same one in torch.

    Parameters
    ----------
    weights : tensors by name, for a file that leaves them out.
    preprocessing : by default what the file's metadata say.
    """

    batch = 8  # what lies between two layers stays in the cache

    def __init__(
        self,
        name: str,
        file: Path,
        digest: str,
        wanted: str | None = None,
        weights: Mapping[str, NDArray[Any]] | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        import onnxruntime

        super().__init__(name, digest, wanted)
        self.file, self.weights = file, weights or {}
        options = onnxruntime.SessionOptions()
        torch = sys.modules.get("torch")  # where it is, it knows how many threads the program wants
        wanted_threads = torch.get_num_threads() if torch else int(os.environ.get("OMP_NUM_THREADS", usable_cores()))
        options.intra_op_num_threads = min(usable_cores(), wanted_threads)
        # Threads that wait leave their core to others: decoding goes on at the same time.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        tensors = {key: onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for key, tensor in self.weights.items()}
        options.add_external_initializers(list(tensors), list(tensors.values()))
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
        if preprocessing is None and stored is not None:
            preprocessing = Preprocessing.from_dict(json.loads(stored))
        self.preprocessing = preprocessing or Preprocessing(size=side, resize=round(side / 0.875))
        size = self.preprocessing.size
        probe = self.forward(np.zeros((1, size, size, 3), np.uint8))
        if probe.ndim != 2:
            raise BackboneError(f"the first output of '{file}' must be features (n, d); it is {probe.shape}")
        self.dim = probe.shape[1]

    def forward(self, *views: Pixels) -> FloatArray:
        (pixels,) = views
        return np.asarray(self._session.run(None, {self.input: self.preprocessing.inputs(pixels)})[0], np.float32)


@register_source("onnx:FILE", needs="onnxruntime", install="pip install subspan")
def onnx_file(place: str, digest: str | None) -> OnnxBackbone:
    """The network of a file."""
    file = Path(place)
    if not file.is_file():
        raise FileNotFoundError("there is no such file")
    sha = hashlib.sha256(file.read_bytes())
    weights = file.with_name(file.name + ".data")
    if weights.exists():
        sha.update(weights.read_bytes())
    return OnnxBackbone(f"onnx:{file.resolve()}", file, sha.hexdigest(), digest)
