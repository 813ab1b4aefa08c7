"""What a base session learns, apart from how."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from subspan.images.imageset import ImageSet, IntArray
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
    train_rows: IntArray
    train_labels: IntArray
    validation_rows: IntArray
    validation_labels: IntArray
    test_rows: IntArray
    test_labels: IntArray
    split_digest: str = ""

    @classmethod
    def from_split(cls, images: ImageSet, split: Split, folder: Path, seed: int) -> "Job":
        """The base session of a split."""
        label_of = np.full(len(images.class_names), -1, dtype=np.int64)
        label_of[list(split.training_classes)] = np.arange(len(split.training_classes))

        def part(rows: IntArray) -> tuple[IntArray, IntArray]:
            return rows, label_of[images.labels[rows]]

        return cls(
            split.name,
            folder,
            seed,
            len(split.training_classes),
            len(split.base_classes),
            *part(split.training_images),
            *part(split.base_validation),
            *part(split.base_test),
            split.digest(),
        )
