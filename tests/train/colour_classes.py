"""Four classes of 32-pixel images that differ in colour, for trainings that take seconds."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import torch

from subspan.backbones.checkpoint import read_tensors
from subspan.train.recipe import PAPER, Recipe
from subspan.train.run import Job
from subspan.train.trainer import Outcome, Runtime, train

CLASSES, PER_CLASS, SIZE = 4, 40, 32
# Enough to tell four colours apart; with dropout such a small network ends below 90 % with one seed in ten.
LEARNS: dict[str, Any] = {"epochs": 8, "cuts": (6,), "jitter": 0.0, "dropblock": "none"}
QUICK = Runtime(device="cpu", progress=False, checkpoint_every=1, validate_every=2)


def _labels() -> np.ndarray:
    return np.repeat(np.arange(CLASSES), PER_CLASS)


def _images() -> np.ndarray:
    colours = np.array([[200, 60, 60], [60, 200, 60], [60, 60, 200], [180, 180, 60]])
    noise = np.random.default_rng(0).normal(0, 25, (CLASSES * PER_CLASS, SIZE, SIZE, 3))
    return np.clip(colours[_labels()][:, None, None] + noise, 0, 255).astype(np.uint8)


IMAGES = _images()  # uint8 (160, 32, 32, 3)


def colour_job(folder: Path, seed: int = 1) -> Job:
    """96 images to train on, 32 to validate, 32 to test."""
    parts = np.split(np.random.default_rng(1).permutation(CLASSES * PER_CLASS), [96, 128])
    return Job("colours", folder, seed, CLASSES, CLASSES, *((rows, _labels()[rows]) for rows in parts))


def tiny_recipe(**changes: object) -> Recipe:
    """The paper's recipe for a network of a few thousand parameters."""
    small = {"backbone": "resnet12-tian", "width": 0.04, "crop_size": 32, "padding": 4, "batch_size": 16, "epochs": 2}
    return dataclasses.replace(PAPER, **{**small, "cuts": (), **changes})  # type: ignore[arg-type]


def run(
    folder: Path, runtime: Runtime = QUICK, *, seed: int = 1, resume: bool = False, about: Any = None, **changes: object
) -> Outcome:
    """Train the tiny recipe, changed, on the colours."""
    return train(IMAGES, [colour_job(folder, seed)], tiny_recipe(**changes), runtime, resume=resume, about=about)[0]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    """What a run has learned."""
    return read_tensors(folder / "weights.safetensors")[0]


def assert_same(first: Path, second: Path) -> None:
    """Two runs have the same weights, bit for bit."""
    one, other = weights(first), weights(second)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
