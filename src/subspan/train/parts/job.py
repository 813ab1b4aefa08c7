"""What a base session learns, apart from how."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from subspan.images.imageset import ImageSet, IntArray
from subspan.images.splits.split import Split
from subspan.train.recipe import Recipe, member_seed

Labelled = tuple[IntArray, IntArray]  # rows of an array of images, and their classes


@dataclass(frozen=True, eq=False)
class Job:
    """What one network learns: images by their rows, of classes 0 .. classes - 1.

    Validation and test images are those of the first ``base_classes`` classes, and only their logits compete.
    """

    name: str
    folder: Path
    seed: int
    classes: int
    base_classes: int
    train: Labelled
    validation: Labelled
    test: Labelled
    split_digest: str = ""

    @classmethod
    def from_split(cls, images: ImageSet, split: Split, folder: Path, seed: int) -> "Job":
        """The base session of a split."""
        classes, base = len(split.training_classes), len(split.base_classes)
        label_of = np.full(len(images.class_names), -1, dtype=np.int64)
        label_of[list(split.training_classes)] = np.arange(classes)
        chosen = split.training_images, split.base_validation, split.base_test
        parts = [(rows, label_of[images.labels[rows]]) for rows in chosen]
        return cls(split.name, folder, seed, classes, base, *parts, split_digest=split.digest())

    def members(self, recipe: Recipe) -> "list[Job]":
        """One job for each member of a joined network, in a folder of its own; the job itself where none is joined."""
        if recipe.members == 1:
            return [self]
        seeds = [member_seed(self.seed, i) for i in range(recipe.members)]
        return [replace(self, folder=self.folder / f"member-{i}", seed=seed) for i, seed in enumerate(seeds, start=1)]
