"""The image half of a CLIP model: ``open_clip:ViT-B-32/laion2b_s34b_b79k`` (model / weights)."""

from typing import Any

from torch import Tensor, nn

from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.registry import optional_import, register_source


class ImageHalf(nn.Module):
    """Images to the vectors that are compared with texts."""

    def __init__(self, visual: nn.Module) -> None:
        super().__init__()
        self.visual = visual

    def forward(self, images: Tensor) -> Tensor:
        return self.visual(images)


@register_source("open_clip:MODEL/WEIGHTS")
def open_clip_model(name: str) -> TorchBackbone:
    """open_clip loads the weights from its cache or from the hub, and knows size and normalisation."""
    model, _, weights = name.rpartition("/")
    if not model:
        raise BackboneError(f"an open_clip backbone is named open_clip:MODEL/WEIGHTS; got 'open_clip:{name}'")
    with optional_import(f"open_clip:{name}", "pip install open_clip_torch"):
        import open_clip  # pyright: ignore[reportMissingImports]
    try:
        visual: Any = open_clip.create_model(model, pretrained=weights).visual
    except Exception as error:  # unknown names, the hub and torch raise kinds of their own
        raise BackboneError(f"open_clip cannot load '{name}': {' '.join(str(error).split())}") from error
    settings = visual.preprocess_cfg
    size = settings["size"][-1] if isinstance(settings["size"], list | tuple) else settings["size"]
    preprocessing = Preprocessing(
        size=int(size),
        resize=int(size),
        mean=tuple(settings["mean"]),
        std=tuple(settings["std"]),
        interpolation=settings.get("interpolation", "bicubic"),
        fit="squash" if settings.get("resize_mode") == "squash" else "crop",
    )
    return TorchBackbone(f"open_clip:{name}", ImageHalf(visual), preprocessing)
