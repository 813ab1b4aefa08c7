"""A catalogue as one ONNX file: backbone, head and calibration, checked by onnxruntime before it gets its name."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.snapshot import Snapshot
from subspan.files.atomic import replacing
from subspan.pretrained.backbone import Backbone, Image, prepare

TOLERANCE = 1e-3  # greatest difference of a probability that two ways of adding float32 numbers may make


@dataclass(frozen=True)
class ExportReport:
    """An exported file."""

    file: str
    bytes: int
    classes: int
    inputs: dict[str, tuple[int | str, ...]]  # name and shape, one for each view of a photograph
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
    from subspan.catalogue.onnx_graph import PROBABILITIES, inputs_of, make_graph  # here: it needs them

    with replacing(file) as whole:
        shown = [prepare(backbone.views, image, f"number {place}") for place, image in enumerate(images, 1)]
        views = dict(zip(inputs_of(backbone), map(np.stack, zip(*shown, strict=True)), strict=True))
        proto = make_graph(snapshot, backbone)
        about = {
            "classes": list(snapshot.classes),
            "preprocessing": dict(zip(views, (view.to_dict() for view in backbone.views), strict=True)),
            "backbone": backbone.name,
            "version": snapshot.chain[-1],
            "rejection": {"share": share, "threshold": snapshot.threshold(share)},
        }
        onnx.helper.set_model_props(proto, {"subspan": json.dumps(about)})
        expected = snapshot.probabilities(snapshot.scores(backbone.forward(*views.values())))
        onnx.save_model(proto, whole)
        session = onnxruntime.InferenceSession(str(whole), providers=["CPUExecutionProvider"])
        batches = [{name: pixels[part] for name, pixels in views.items()} for part in (slice(1), slice(1, None))]
        found = np.concatenate([np.asarray(session.run([PROBABILITIES], one)[0]) for one in batches[: len(images)]])
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
        inputs={one.name: tuple(one.shape) for one in session.get_inputs()},
        images=len(images),
        difference=difference,
        agreed=int((found.argmax(axis=1) == expected.argmax(axis=1)).sum()),
    )
