"""Four classes of 32-pixel images that differ in colour, for trainings that take seconds."""

import dataclasses
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.train.job import Job
from subspan.train.recipe import PAPER, Recipe

CLASSES, PER_CLASS, SIZE = 4, 40, 32


def colour_images() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """uint8 (160, 32, 32, 3) and labels (160,)."""
    generator = np.random.default_rng(0)
    colours = np.array([[200, 60, 60], [60, 200, 60], [60, 60, 200], [180, 180, 60]])
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    noise = generator.normal(0, 25, (len(labels), SIZE, SIZE, 3))
    return np.clip(colours[labels][:, None, None] + noise, 0, 255).astype(np.uint8), labels


def colour_job(folder: Path, seed: int = 1) -> Job:
    """96 images to train on, 32 to validate, 32 to test."""
    _, labels = colour_images()
    order = np.random.default_rng(1).permutation(len(labels))
    train, validation, test = order[:96], order[96:128], order[128:]
    return Job(
        name="colours",
        folder=folder,
        seed=seed,
        classes=CLASSES,
        base_classes=CLASSES,
        train_rows=train,
        train_labels=labels[train],
        validation_rows=validation,
        validation_labels=labels[validation],
        test_rows=test,
        test_labels=labels[test],
    )


def tiny_recipe(**changes: object) -> Recipe:
    """The paper's recipe for a network of a few thousand parameters."""
    small = {"backbone": "resnet12-tian", "width": 0.04, "crop_size": 32, "padding": 4, "batch_size": 16, "epochs": 4}
    return dataclasses.replace(PAPER, **{**small, "cuts": (3,), **changes})  # type: ignore[arg-type]
