"""Trained networks on stored images, whole batches on the device, and their accuracies."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from subspan.backbones.network import Network
from subspan.values import normalised

CHUNK = 500  # images at once


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the former mode comes back."""
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        network.train(training)


def batches(images: NDArray[np.uint8] | Tensor, rows: NDArray[np.int64], device: torch.device) -> Iterator[Tensor]:
    """uint8 images[rows] on the device, ``CHUNK`` at a time."""
    for start in range(0, len(rows), CHUNK):
        chosen = rows[start : start + CHUNK]
        if isinstance(images, Tensor):
            yield images[torch.from_numpy(chosen).to(images.device)].to(device)
        else:
            yield torch.from_numpy(images[chosen]).to(device)


def inputs(
    images: NDArray[np.uint8] | Tensor,
    rows: NDArray[np.int64],
    mean: tuple[float, ...],
    std: tuple[float, ...],
    device: torch.device,
) -> Iterator[Tensor]:
    """Network inputs (n, 3, h, w) of uint8 images[rows], ``CHUNK`` at a time."""
    for pixels in batches(images, rows, device):
        yield normalised(pixels, mean, std)


def accuracy(
    network: Network,
    images: NDArray[np.uint8] | Tensor,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    *,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    classes: int,
    device: torch.device,
    bf16: bool = False,
) -> float:
    """Percent of ``images[rows]`` whose largest logit among the first ``classes`` is at their label (n,)."""
    if len(rows) == 0:
        return float("nan")
    correct = torch.zeros((), device=device)
    with evaluation_mode(network), torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
        start = 0
        for shown in inputs(images, rows, mean, std, device):
            logits = network(shown)[:, :classes]
            truth = torch.from_numpy(labels[start : start + len(shown)]).to(device)
            correct += (logits.argmax(1) == truth).sum()
            start += len(shown)
    return 100 * float(correct) / len(rows)
