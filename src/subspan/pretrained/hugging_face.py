"""An image model of transformers: ``hf:facebook/dinov2-small``, or ``hf:FOLDER`` with one on disk.

``hf:facebook/dinov2-small@REVISION`` names one commit of the hub; a model from the hub says of itself which one it is.
"""

from pathlib import Path
from typing import Any

import PIL.Image
from torch import Tensor, nn

from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.registry import register_source


class ImageVector(nn.Module):
    """One vector per image: a CLIP model's image vector, else the pooled output, else the first token."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        if hasattr(self.model, "get_image_features"):
            output: Any = self.model.get_image_features(pixel_values=images)  # pyright: ignore[reportCallIssue]
            return output if isinstance(output, Tensor) else output.pooler_output
        output = self.model(pixel_values=images)
        pooled = getattr(output, "pooler_output", None)
        return output.last_hidden_state[:, 0] if pooled is None else pooled.flatten(1)


@register_source("hf:NAME", hub=True, needs="transformers", install="pip install transformers")
def hugging_face_model(name: str, digest: str | None) -> TorchBackbone:
    """transformers loads the weights from its cache, a folder or the hub; the model's own file says how to prepare."""
    from transformers import AutoModel  # pyright: ignore[reportMissingImports]
    from transformers.image_processing_base import ImageProcessingMixin  # pyright: ignore[reportMissingImports]
    from transformers.utils import logging  # pyright: ignore[reportMissingImports]
    from transformers.utils.hub import cached_file, extract_commit_hash  # pyright: ignore[reportMissingImports]

    folder = Path(name).is_dir()
    model, _, revision = (name, "", "") if folder else name.partition("@")

    def load(local: bool) -> tuple[nn.Module, dict[str, Any], str]:
        where: dict[str, Any] = {"local_files_only": local, "revision": revision or "main"}
        # Code that comes with a model is not run, nor is anybody asked whether to.
        safely = {"trust_remote_code": False, "weights_only": True}
        network = AutoModel.from_pretrained(model, **safely, **where)  # nosec B615 # where names the revision
        prepared = ImageProcessingMixin.get_image_processor_dict(model, **where)[0]
        commit = None if folder else extract_commit_hash(cached_file(model, "config.json", **where), None)
        return network, prepared, f"{model}@{commit or revision}".removesuffix("@")

    shows = logging.enable_progress_bar if logging.is_progress_bar_enabled() else logging.disable_progress_bar
    logging.disable_progress_bar()  # one for what comes from the disk would only flash by at every command
    try:  # what is here is not asked for again: a catalogue opens without a network
        module, settings, placed = load(local=True)
    except OSError:
        shows()
        module, settings, placed = load(local=False)
    finally:
        shows()
    placed = str(Path(name).resolve()) if folder else placed
    return TorchBackbone(f"hf:{placed}", ImageVector(module), preprocessing_of(settings, name), digest)


def preprocessing_of(settings: dict[str, Any], name: str) -> Preprocessing:
    """Preprocessing from the content of a ``preprocessor_config.json``."""
    scaled, cut = settings.get("size", 224), settings.get("crop_size")
    try:
        resize = _side(scaled)
        size = _side(cut) if cut is not None and settings.get("do_center_crop", True) else resize
        if "crop_pct" in settings:  # ConvNeXt's file gives the share to keep instead
            size, resize = resize, int(resize / settings["crop_pct"])
        # Both sides named: the model's own code scales both, whatever the shape.
        squash = isinstance(scaled, dict) and "height" in scaled and cut is None
        return Preprocessing(
            size=size,
            resize=max(size, resize),
            mean=tuple(settings.get("image_mean", Preprocessing.mean)),
            std=tuple(settings.get("image_std", Preprocessing.std)),
            interpolation=PIL.Image.Resampling(settings.get("resample", 3)).name.lower(),  # pyright: ignore[reportArgumentType]
            fit="squash" if squash else "crop",
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BackboneError(f"the preprocessing of '{name}' is of no known form: {error}") from error


def _side(value: Any) -> int:
    if isinstance(value, dict):
        value = value.get("shortest_edge", value.get("height"))
    return int(value)
