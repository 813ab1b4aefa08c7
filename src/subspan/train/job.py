"""What a base session learns, apart from how."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.images.imageset import ImageSet
from subspan.images.splits.split import Split


@dataclass(frozen=True, eq=False)
class Job:
    """What one network learns: rows of an array of images and their classes, 0 .. classes - 1.

    Validation and test images are those of the first ``base_classes`` classes, and only their logits compete.
    """

    name: str
    folder: Path
    seed: int
    classes: int
    base_classes: int
    train_rows: NDArray[np.int64]
    train_labels: NDArray[np.int64]
    validation_rows: NDArray[np.int64]
    validation_labels: NDArray[np.int64]
    test_rows: NDArray[np.int64]
    test_labels: NDArray[np.int64]
    split_digest: str = ""

    @classmethod
    def from_split(cls, images: ImageSet, split: Split, folder: Path, seed: int) -> "Job":
        """The base session of a split."""
        label_of = np.full(len(images.class_names), -1, dtype=np.int64)
        label_of[list(split.training_classes)] = np.arange(len(split.training_classes))
        labels = label_of[images.labels]
        rows = split.training_images, split.base_validation, split.base_test
        (train, train_labels), (validation, validation_labels), (test, test_labels) = ((r, labels[r]) for r in rows)
        return cls(
            name=split.name,
            folder=folder,
            seed=seed,
            classes=len(split.training_classes),
            base_classes=len(split.base_classes),
            train_rows=train,
            train_labels=train_labels,
            validation_rows=validation,
            validation_labels=validation_labels,
            test_rows=test,
            test_labels=test_labels,
            split_digest=split.digest(),
        )
