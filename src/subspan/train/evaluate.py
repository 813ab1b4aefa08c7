"""Trained networks on stored images, whole batches on the device, and their accuracies."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from subspan.backbones.network import Network
from subspan.train.job import Job
from subspan.train.recipe import Recipe
from subspan.values import normalised

Part = Literal["validation", "test"]

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


def batches(
    images: NDArray[np.uint8] | Tensor, rows: NDArray[np.int64], device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """uint8 images[rows] and the rows themselves on the device, ``CHUNK`` at a time."""
    for start in range(0, len(rows), CHUNK):
        chosen = rows[start : start + CHUNK]
        places = torch.from_numpy(chosen)
        pixels = images[places.to(images.device)] if isinstance(images, Tensor) else torch.from_numpy(images[chosen])
        yield pixels.to(device), places.to(device)


def inputs(
    images: NDArray[np.uint8] | Tensor, rows: NDArray[np.int64], recipe: Recipe, device: torch.device
) -> Iterator[Tensor]:
    """Network inputs (n, 3, h, w) of uint8 images[rows], ``CHUNK`` at a time."""
    for pixels, _ in batches(images, rows, device):
        yield normalised(pixels, recipe.mean, recipe.std)


def job_accuracy(
    network: Network,
    images: NDArray[np.uint8] | Tensor,
    job: Job,
    part: Part,
    recipe: Recipe,
    device: torch.device,
    *,
    bf16: bool = False,
) -> float:
    """Percent of a job's validation or test images that are classified correctly among its base classes."""
    validation = job.validation_rows, job.validation_labels
    rows, labels = validation if part == "validation" else (job.test_rows, job.test_labels)
    if len(rows) == 0:
        return float("nan")
    with evaluation_mode(network), torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16):
        shown = inputs(images, rows, recipe, device)
        answers = torch.cat([network(some)[:, : job.base_classes].argmax(1) for some in shown])
    return 100 * float((answers.cpu().numpy() == labels).sum()) / len(rows)
