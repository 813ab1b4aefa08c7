"""Image models of timm, ``timm:resnet50.a1_in1k``, and the image halves of open_clip's, ``open_clip:ViT-B-32/openai``.

Each comes with the preprocessing it was trained for. ``timm:resnet50.a1_in1k@FILE`` and ``open_clip:ViT-B-32@FILE``
take the weights from a checkpoint on this disk instead of the hub.
"""

import contextlib
from collections import OrderedDict
from typing import Any

from torch import Tensor, nn

from subspan.backbones.checkpoint import read_weights
from subspan.pretrained.backbone import BackboneError, Preprocessing, TorchBackbone
from subspan.pretrained.registry import register_source, split_file
from subspan.pretrained.without_torchvision import importable_without_torchvision


@register_source("timm:NAME", hub=True, needs="timm", install="pip install timm")
def timm_model(name: str, digest: str | None) -> TorchBackbone:
    """timm loads the weights from its cache or the hub, and knows size, crop and normalisation; a file is read here."""
    model, file = split_file(name)
    with importable_without_torchvision():
        import timm  # pyright: ignore[reportMissingImports]
        import timm.data  # pyright: ignore[reportMissingImports]
    module = timm.create_model(model, pretrained=file is None, num_classes=0)
    if file is not None:
        module.load_state_dict(_without_head(read_weights(file), module))
    placed = f"timm:{name}" if file is None else f"timm:{model}@{file}"
    return TorchBackbone(placed, module, _preprocessing(timm.data.resolve_model_data_config(module), placed), digest)


def _without_head(state: dict[str, Tensor], module: nn.Module) -> dict[str, Tensor]:
    """A checkpoint less the classes it was trained on; all else must fit the network."""
    names = getattr(module, "pretrained_cfg", {}).get("classifier") or ()
    prefixes = tuple(f"{head}." for head in ([names] if isinstance(names, str) else names))
    return {name: value for name, value in state.items() if not (prefixes and name.startswith(prefixes))}


@register_source("open_clip:MODEL/WEIGHTS", hub=True, needs="open_clip", install="pip install open_clip_torch")
def open_clip_model(name: str, digest: str | None) -> TorchBackbone:
    """open_clip loads the weights from its cache, the hub or a file, and knows size and normalisation."""
    model, file = split_file(name)
    weights = file
    if file is None:
        model, _, weights = name.rpartition("/")
    if not model:
        raise BackboneError(
            f"an open_clip backbone is named open_clip:MODEL/WEIGHTS or open_clip:MODEL@FILE; got 'open_clip:{name}'"
        )
    with contextlib.suppress(ImportError, AttributeError):
        # open_clip imports transformers, which asks once whether torchvision is there: it must not find ours.
        from transformers.utils import is_torchvision_available  # pyright: ignore[reportMissingImports]

        is_torchvision_available()
    with importable_without_torchvision():
        import open_clip  # pyright: ignore[reportMissingImports]
    if model not in open_clip.list_models():
        raise BackboneError(f"open_clip knows no model '{model}'; open_clip.list_models() lists what it knows")
    known = open_clip.list_pretrained_tags_by_model(model)
    if file is None and weights not in known:
        raise BackboneError(
            f"open_clip knows no weights '{weights}' of '{model}'; it knows {', '.join(known) or 'none'}"
        )
    visual: Any = open_clip.create_model(model, pretrained=str(weights)).visual
    placed = f"open_clip:{name}" if file is None else f"open_clip:{model}@{file}"
    half = nn.Sequential(OrderedDict(visual=visual))  # so named, its weights have the digest that models keep
    said = visual.preprocess_cfg
    size = said["size"]
    data = {
        "input_size": (3, *(size if isinstance(size, list | tuple) else (size, size))),
        "crop_mode": {"shortest": "center"}.get(mode := said.get("resize_mode", "shortest"), mode),
        "interpolation": said.get("interpolation", "bicubic"),
        "crop_pct": 1,
    }
    return TorchBackbone(placed, half, _preprocessing({**said, **data}, placed), digest)


def _preprocessing(data: dict[str, Any], name: str) -> Preprocessing:
    """Preprocessing from what timm says of a model's data, or open_clip in timm's words."""
    channels, height, size = data["input_size"]
    mode, interpolation = data.get("crop_mode", "center"), data["interpolation"]
    if channels != 3 or height != size or mode not in ("center", "squash"):
        raise BackboneError(
            f"backbone '{name}' wants inputs {channels} x {height} x {size}, cropped by '{mode}'; only squares of "
            "three channels, by 'center' or 'squash', are made here"
        )
    return Preprocessing(
        size=int(size),
        resize=max(int(size), int(size / data["crop_pct"])),
        mean=tuple(data["mean"]),
        std=tuple(data["std"]),
        interpolation="bicubic" if interpolation == "random" else interpolation,
        fit="squash" if mode == "squash" else "crop",
    )
