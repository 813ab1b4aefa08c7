"""A catalogue as one ONNX file: backbone, head and calibration, checked by onnxruntime before it gets its name."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.onnx_graph import PIXELS, PROBABILITIES, make_graph
from subspan.catalogue.snapshot import Snapshot
from subspan.files.atomic import replacing
from subspan.pretrained.backbone import Backbone, Image

TOLERANCE = 1e-3  # greatest difference of a probability that two ways of adding float32 numbers may make


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


def export_onnx(
    file: Path, snapshot: Snapshot, backbone: Backbone, images: Sequence[Image], share: float
) -> ExportReport:
    """Write ``file`` and check it on ``images``; a file that answers otherwise than the catalogue is not kept.

    Its metadata holds the class names, the preprocessing, the version and the rejection threshold for ``share``.
    """
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
    with replacing(file) as whole:
        pixels = np.stack([backbone.preprocessing.pixels(image, f"number {i + 1}") for i, image in enumerate(images)])
        proto = make_graph(snapshot, backbone)
        about = {
            "classes": list(snapshot.classes),
            "preprocessing": backbone.preprocessing.to_dict(),
            "backbone": backbone.name,
            "version": snapshot.chain[-1],
            "rejection": {"share": share, "threshold": snapshot.threshold(share)},
        }
        onnx.helper.set_model_props(proto, {"subspan": json.dumps(about)})
        expected = snapshot.probabilities(snapshot.scores(backbone.forward(pixels)))
        onnx.save_model(proto, whole)
        session = onnxruntime.InferenceSession(str(whole), providers=["CPUExecutionProvider"])
        found = np.concatenate([_run(session, pixels[:1]), _run(session, pixels[1:])])  # two sizes of batch
        difference = float(np.abs(found - expected).max())
        if not difference <= TOLERANCE:
            raise CatalogueError(
                f"the exported file differs from the catalogue by {difference:.2g} in a probability, more than "
                f"{TOLERANCE:g}; it was not kept"
            )
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
