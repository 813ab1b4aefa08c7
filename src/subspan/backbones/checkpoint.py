"""Weights on disk: safetensors written in one piece or in shards, and an importer of the authors' checkpoint files."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from subspan.backbones.heads import LinearHead
from subspan.backbones.network import Network
from subspan.backbones.registry import create_backbone
from subspan.files import replacing

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
        content = torch.load(path, map_location="cpu", weights_only=True)
    nested = (content[name] for name in NESTED if isinstance(content, dict) and isinstance(content.get(name), dict))
    state = next(nested, content)
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{path} must hold a state dict, or a dictionary with one under {', '.join(NESTED)}")
    return {name.removeprefix("module."): tensor for name, tensor in state.items()}


def module_digest(module: nn.Module) -> str:
    """sha256 over names and values of a module's state, counters left out: they have no effect in evaluation mode."""
    sha = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if name.endswith("num_batches_tracked") or ".clock." in f".{name}":
            continue
        sha.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        sha.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()


def write_shards(
    folder: Path, stem: str, tensors: Mapping[str, Tensor], meta: Mapping[str, Any], *, limit: int = 15 << 20
) -> list[Path]:
    """Write floating-point tensors in half precision as files of at most ``limit`` bytes; all carry the metadata.

    Halving the precision of trained weights changes features by about one part in a thousand; a training run cannot be
    resumed bit for bit from it. A tensor larger than a file is cut along its first axis.
    """
    pieces: list[tuple[str, Tensor]] = []
    for name, tensor in tensors.items():
        small = tensor.detach().cpu().contiguous()
        small = small.half() if small.is_floating_point() else small
        parts = -(-small.numel() * small.element_size() // limit)
        if parts <= 1:
            pieces.append((name, small))
        else:
            pieces += [(f"{name}#{i}", piece.clone()) for i, piece in enumerate(small.chunk(parts))]
    shards: list[dict[str, Tensor]] = []
    room = 0
    for name, piece in sorted(pieces, key=lambda pair: -pair[1].numel()):
        size = piece.numel() * piece.element_size()
        if size > room:
            shards.append({})
            room = limit
        shards[-1][name] = piece
        room -= size
    paths = []
    folder.mkdir(parents=True, exist_ok=True)
    for i, shard in enumerate(shards, start=1):
        path = folder / f"{stem}-{i:02d}-of-{len(shards):02d}.safetensors"
        write_tensors(path, shard, {**meta, "shards": len(shards)})
        paths.append(path)
    return paths


def read_shards(paths: list[Path]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors, in single precision again, and metadata of :func:`write_shards`."""
    gathered: dict[str, Tensor] = {}
    meta: dict[str, Any] = {}
    for path in paths:
        tensors, meta = read_tensors(path)
        gathered |= tensors
    if not paths or meta.get("shards") != len(paths):
        raise ValueError(f"these weights are {meta.get('shards')} files, got {len(paths)}")
    whole: dict[str, Tensor] = {}
    for name in sorted(gathered, key=lambda n: (n.split("#")[0], int(n.split("#")[1]) if "#" in n else 0)):
        stem = name.split("#")[0]
        tensor = gathered[name].float() if gathered[name].is_floating_point() else gathered[name]
        whole[stem] = torch.cat([whole[stem], tensor]) if stem in whole else tensor
    return whole, {k: v for k, v in meta.items() if k != "shards"}


def import_tian(path: Path, backbone: str = "resnet18-tian") -> Network:
    """A network from a checkpoint of the rfs or subspace-reg repositories.

    Their files are dictionaries with the state under ``model`` (``layer1.0.conv1.weight``, ..., ``classifier.weight``),
    read by `read_weights`. Squeeze-and-excitation is recognised by name.
    """
    state = read_weights(path)
    rows = state.pop("classifier.weight", None)
    bias = state.pop("classifier.bias", None)
    if rows is None:
        raise ValueError(f"{path} holds no 'classifier.weight'; its names begin with {', '.join(sorted(state)[:3])}")
    network = create_backbone(backbone, se=any(".se." in name for name in state))
    wanted = network.state_dict()
    for name in wanted:
        if name.startswith("clock."):
            state[name] = wanted[name]
    missing, unknown = sorted(set(wanted) - set(state)), sorted(set(state) - set(wanted))
    if missing or unknown:
        raise ValueError(
            f"{path} is no {backbone}: missing {missing[:3] or 'nothing'}, unknown {unknown[:3] or 'nothing'}"
        )
    network.load_state_dict(state)
    classes, dim = rows.shape
    head = LinearHead(dim, classes, bias=bias is not None, generator=torch.Generator().manual_seed(0))
    head.load_state_dict({"weight": rows} if bias is None else {"weight": rows, "bias": bias})
    return Network(network, head)
