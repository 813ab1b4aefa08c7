"""Any image model of timm, with the preprocessing it was trained for: ``timm:resnet50.a1_in1k``."""

from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.registry import optional_import, register_source


@register_source("timm:NAME")
def timm_model(name: str) -> TorchBackbone:
    """timm loads the weights from its cache or from the hub, and knows size, crop and normalisation."""
    with optional_import(f"timm:{name}", "pip install timm"):
        import timm  # pyright: ignore[reportMissingImports]
        import timm.data  # pyright: ignore[reportMissingImports]
    try:
        module = timm.create_model(name, pretrained=True, num_classes=0)
        data = timm.data.resolve_model_data_config(module)
    except Exception as error:  # unknown names, the hub and torch raise kinds of their own
        raise BackboneError(f"timm cannot load '{name}': {' '.join(str(error).split())}") from error
    size = int(data["input_size"][-1])
    interpolation = data["interpolation"]
    preprocessing = Preprocessing(
        size=size,
        resize=max(size, int(size / data["crop_pct"])),
        mean=tuple(data["mean"]),
        std=tuple(data["std"]),
        interpolation="bicubic" if interpolation == "random" else interpolation,
        fit="squash" if data.get("crop_mode") == "squash" else "crop",
    )
    return TorchBackbone(f"timm:{name}", module, preprocessing)
