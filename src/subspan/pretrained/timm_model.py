"""Any image model of timm, with the preprocessing it was trained for: ``timm:resnet50.a1_in1k``.

``timm:resnet50.a1_in1k@FILE`` takes the weights from a checkpoint on this disk instead of the hub.
"""

from typing import Any

from torch import Tensor, nn

from subspan.backbones.checkpoint import read_weights
from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.registry import loading, optional_import, register_source, split_file
from subspan.pretrained.without_torchvision import importable_without_torchvision


@register_source("timm:NAME")
def timm_model(name: str, digest: str | None) -> TorchBackbone:
    """timm loads the weights from its cache or the hub, and knows size, crop and normalisation; a file is read here."""
    model, file = split_file("timm", name)
    with optional_import(f"timm:{name}", "pip install timm"), importable_without_torchvision():
        import timm  # pyright: ignore[reportMissingImports]
        import timm.data  # pyright: ignore[reportMissingImports]
    with loading("timm", name):
        module = timm.create_model(model, pretrained=file is None, num_classes=0)
        if file is not None:
            module.load_state_dict(_without_head(read_weights(file), module))
        data = timm.data.resolve_model_data_config(module)
    placed = f"timm:{name}" if file is None else f"timm:{model}@{file}"
    return TorchBackbone(placed, module, preprocessing_of(data, name), digest)


def preprocessing_of(data: dict[str, Any], name: str) -> Preprocessing:
    """Preprocessing from what timm says of a model's data."""
    channels, height, size = data["input_size"]
    mode, interpolation = data.get("crop_mode", "center"), data["interpolation"]
    if channels != 3 or height != size or mode not in ("center", "squash"):
        raise BackboneError(
            f"timm:{name} wants inputs {channels} x {height} x {size}, cropped by '{mode}'; only squares of three "
            "channels, by 'center' or 'squash', are made here"
        )
    return Preprocessing(
        size=int(size),
        resize=max(int(size), int(size / data["crop_pct"])),
        mean=tuple(data["mean"]),
        std=tuple(data["std"]),
        interpolation="bicubic" if interpolation == "random" else interpolation,
        fit="squash" if mode == "squash" else "crop",
    )


def _without_head(state: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """A checkpoint less the classes it was trained on; all else must fit the network."""
    names = getattr(module, "pretrained_cfg", {}).get("classifier") or ()
    prefixes = tuple(f"{head}." for head in ([names] if isinstance(names, str) else names))
    return {name: value for name, value in state.items() if not (prefixes and name.startswith(prefixes))}
