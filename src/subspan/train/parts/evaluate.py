"""Stored images as a network sees them, whole batches on the device, and how many it tells right."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.backbones.network import Network
from subspan.train.parts.job import Job
from subspan.train.recipe import Recipe
from subspan.values import normalised

Images = NDArray[np.uint8] | Tensor  # uint8 (n, h, w, 3)

CHUNK = 500  # images at once


def batches(images: Images, rows: NDArray[np.int64], device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """uint8 images[rows] and the rows themselves on the device, ``CHUNK`` at a time."""
    for start in range(0, len(rows), CHUNK):
        chosen = rows[start : start + CHUNK]
        places = torch.from_numpy(chosen)
        pixels = images[places.to(images.device)] if isinstance(images, Tensor) else torch.from_numpy(images[chosen])
        yield pixels.to(device), places.to(device)


def inputs(images: Images, rows: NDArray[np.int64], recipe: Recipe, device: torch.device) -> Iterator[Tensor]:
    """Network inputs (n, 3, h, w) of uint8 images[rows], ``CHUNK`` at a time."""
    for pixels, _ in batches(images, rows, device):
        yield normalised(pixels, recipe.mean, recipe.std)


@torch.no_grad()
def accuracies(
    network: Network, images: Images, job: Job, recipe: Recipe, parts: Sequence[str] = ("validation", "test")
) -> dict[str, float | None]:
    """Percent of a job's images told right among its base classes, by part, in evaluation mode; None of no images."""
    found: dict[str, float | None] = {}
    network.eval()
    for part in parts:
        rows, labels = getattr(job, part)
        shown = inputs(images, rows, recipe, network.head.weight.device)
        answers = [network(some)[:, : job.base_classes].argmax(1).cpu().numpy() for some in shown]
        found[part] = 100 * float((np.concatenate(answers) == labels).sum()) / len(rows) if answers else None
    return found
