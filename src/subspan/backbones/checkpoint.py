"""Weights on disk: safetensors, and the files of other people's trainings."""

import json
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from subspan.files.atomic import replacing

NESTED = ("state_dict_ema", "model_ema", "state_dict", "model")  # where checkpoints keep the state of a network
_META = "subspan"


def write_tensors(path: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any]) -> None:
    """Write tensors and JSON metadata so that ``path`` holds either the old file or the whole new one, never a part."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with replacing(path) as temporary:
        save_file(plain, temporary, metadata={_META: json.dumps(meta)})


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and metadata of :func:`write_tensors`, on the CPU."""
    try:
        with safe_open(path, framework="pt") as file:
            meta = json.loads((file.metadata() or {}).get(_META, "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, meta  # noqa: SIM118 (no mapping)
    except SafetensorError as error:
        raise ValueError(f"{path} is no readable safetensors file: {error}") from error


def read_weights(path: Path) -> dict[str, Tensor]:
    """The state of a network in a file of somebody else's training, safetensors or what ``torch.save`` writes.

    Nothing in the file is run: of a pickle, tensors and plain values are taken and anything else is refused. The state
    may lie under one of the names `NESTED`, those of averaged weights first, and every name in it may begin with the
    ``module.`` of DataParallel.
    """
    if path.suffix == ".safetensors":
        content: Any = read_tensors(path)[0]
    else:
        try:
            content = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError as error:  # torch's own words advise to run what the file holds
            raise ValueError(f"{path} holds more than tensors and plain values, and was not read") from error
    nested = (content[name] for name in NESTED if isinstance(content, dict) and isinstance(content.get(name), dict))
    state = next(nested, content)
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{path} must hold a state dict, or a dictionary with one under {', '.join(NESTED)}")
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}
