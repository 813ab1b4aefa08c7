"""A catalogue as one ONNX file: backbone, head and calibration, checked by onnxruntime before it gets its name."""

import contextlib
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.snapshot import Snapshot
from subspan.pretrained import Backbone, Image, TorchBackbone

TOLERANCE = 1e-3  # greatest difference of a probability that two ways of adding float32 numbers may make
PIXELS, PROBABILITIES, FAMILIARITY = "pixels", "probabilities", "familiarity"


@dataclass(frozen=True)
class ExportReport:
    """An exported file."""

    file: str
    bytes: int
    classes: int
    input: tuple[int | str, ...]  # shape of "pixels"
    images: int  # it was checked with
    difference: float  # greatest between a probability of the file and of the catalogue, on these images
    agreed: int  # images on which both name the same class


class WholeModel(nn.Module):
    """Prepared pixels uint8 (n, size, size, 3) to probabilities (n, C) and familiarity (n,)."""

    def __init__(self, backbone: TorchBackbone, snapshot: Snapshot) -> None:
        super().__init__()
        self.backbone, self.preprocessing = backbone.module, backbone.preprocessing
        self.score, self.temperature = snapshot.classifier.scorer(), snapshot.temperature

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        scores = self.score(self.backbone(self.preprocessing.normalise(pixels)))
        return torch.softmax(scores / self.temperature, dim=1), torch.logsumexp(scores, dim=1)


def export_onnx(
    file: Path, snapshot: Snapshot, backbone: Backbone, images: Sequence[Image], share: float | None = 0.05
) -> ExportReport:
    """Write ``file`` and check it on ``images``; a file that answers otherwise than the catalogue is not kept.

    Its metadata holds the class names, the preprocessing, the version and the rejection threshold for ``share``.
    """
    if not isinstance(backbone, TorchBackbone):
        raise CatalogueError(
            f"backbone '{backbone.name}' is an ONNX file itself; only backbones in torch can be exported with the head"
        )
    if not images:
        raise CatalogueError("an export is checked on photographs; give at least one")
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401 (torch's exporter needs it)
    except (ImportError, RuntimeError) as error:
        raise CatalogueError(
            f"exporting needs onnx, onnxruntime and onnxscript ({error}); install them: pip install 'subspan[onnx]'"
        ) from error
    size = backbone.preprocessing.size
    pixels = np.stack([backbone.preprocessing.pixels(image, f"number {i + 1}") for i, image in enumerate(images)])
    model = WholeModel(backbone, snapshot).eval()
    example = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    with _quiet():
        program = torch.onnx.export(
            model,
            (example,),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("n", min=1, max=4096)},),
            input_names=[PIXELS],
            output_names=[PROBABILITIES, FAMILIARITY],
            verbose=False,
        )
    if program is None:
        raise CatalogueError(f"torch cannot export backbone '{backbone.name}'")
    proto = program.model_proto
    about = {
        "classes": list(snapshot.classes),
        "preprocessing": backbone.preprocessing.to_dict(),
        "backbone": backbone.name,
        "version": snapshot.chain[-1],
        "rejection": {"share": share, "threshold": None if share is None else snapshot.threshold(share)},
    }
    onnx.helper.set_model_props(proto, {"subspan": json.dumps(about)})
    expected = snapshot.probabilities(snapshot.scores(backbone.forward(pixels)))
    with tempfile.TemporaryDirectory(dir=file.absolute().parent, prefix=".subspan-") as folder:
        whole = Path(folder) / file.name
        onnx.save_model(proto, whole)
        session = onnxruntime.InferenceSession(str(whole), providers=["CPUExecutionProvider"])
        found = np.concatenate([_run(session, pixels[:1]), _run(session, pixels[1:])])  # two sizes of batch
        difference = float(np.abs(found - expected).max())
        if not difference <= TOLERANCE:
            raise CatalogueError(
                f"the exported file differs from the catalogue by {difference:.2g} in a probability, more than "
                f"{TOLERANCE:g}; it was not kept"
            )
        os.replace(whole, file)
    return ExportReport(
        file=str(file),
        bytes=file.stat().st_size,
        classes=len(snapshot.classes),
        input=tuple(session.get_inputs()[0].shape),
        images=len(pixels),
        difference=difference,
        agreed=int((found.argmax(axis=1) == expected.argmax(axis=1)).sum()),
    )


def _run(session: Any, pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    if len(pixels) == 0:
        return np.zeros((0, session.get_outputs()[0].shape[1]))
    return np.asarray(session.run([PROBABILITIES], {PIXELS: pixels})[0], np.float64)


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
