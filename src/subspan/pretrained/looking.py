"""Features of rows of images by any backbone, plain and of augmented copies, as a run's extractor gives them."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.images.imageset import IntArray
from subspan.pretrained.backbone import Backbone
from subspan.progress import progress_bar
from subspan.train.parts.augment import Augment
from subspan.train.parts.network import batches
from subspan.train.recipe import Recipe


@dataclass(frozen=True, eq=False)
class BackboneLooks:
    """A network of others before one array of images (n, s, s, 3)."""

    backbone: Backbone
    images: NDArray[np.uint8]

    def plain(self, rows: IntArray) -> FloatArray:
        """Features (n, d) of the images as they are."""
        with progress_bar("looking at images", len(rows)) as advance:
            return self.backbone.features([self.images[row] for row in rows], advance=advance)

    def copies(self, rows: IntArray, count: int, seed: int) -> FloatArray:
        """Features (n, count, d) of copies: moved by up to a tenth over black and mirrored, fixed by seed and row."""
        side = self.images.shape[1]
        as_they_are = {"jitter": 0.0, "mean": (0.0,) * 3, "std": (1.0,) * 3}
        augment = Augment(Recipe(backbone="resnet18-he", crop_size=side, padding=side // 10, **as_they_are), seed)
        found = []
        for copy in range(count):
            shown = []
            for pixels, places in batches(self.images, rows, torch.device("cpu")):
                some = augment(pixels, torch.arange(len(pixels)), torch.tensor(copy), places)[0]
                shown += list((some.permute(0, 2, 3, 1) * 255).round().to(torch.uint8).numpy())
            found.append(self.backbone.features(shown))
        return np.stack(found, axis=1)
