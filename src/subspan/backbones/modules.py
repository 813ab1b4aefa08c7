"""What is asked of any torch module from images to features: its width, and the digest of its weights."""

import hashlib

import torch
from torch import nn


def feature_dim(backbone: nn.Module, image_size: int = 84) -> int:
    """d of any module from images to (n, d): its ``feature_dim`` where it has one, else found with one black image."""
    known = getattr(backbone, "feature_dim", None)
    if isinstance(known, int):
        return known
    training = backbone.training
    first = next(backbone.parameters(), torch.zeros(()))
    with torch.no_grad():
        output = backbone.eval()(torch.zeros(1, 3, image_size, image_size, device=first.device, dtype=first.dtype))
    backbone.train(training)
    if output.ndim != 2:
        raise ValueError(f"a backbone maps images (n, 3, h, w) to features (n, d), got shape {tuple(output.shape)}")
    return int(output.shape[1])


def module_digest(module: nn.Module) -> str:
    """sha256 over names and values of a module's state, counters left out: they have no effect in evaluation mode."""
    sha = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        if name.endswith("num_batches_tracked") or ".clock." in f".{name}":
            continue
        sha.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        sha.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return sha.hexdigest()
