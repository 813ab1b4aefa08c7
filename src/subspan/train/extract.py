"""Features of images with a trained network, in evaluation mode, cached by everything they depend on.

The name of a cached array is a hash of the backbone's weights, of the pixels and of the way they are shown, so a
changed input never meets a stale cache.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.arrays import FloatArray
from subspan.backbones.checkpoint import read_tensors, write_tensors
from subspan.backbones.network import Network, module_digest
from subspan.train.parts.augment import Augment
from subspan.train.parts.network import CHUNK, batches, inputs
from subspan.train.recipe import Recipe

Rows = NDArray[np.int64]

_VERSION = 1  # of the way features are computed: raise it when that changes


@dataclass(eq=False)
class Extractor:
    """Features of rows of one array of images."""

    network: Network  # trained; it is moved to the device and put in evaluation mode
    recipe: Recipe  # its normalisation, and its padding and mirroring for augmented copies
    images: NDArray[np.uint8]  # (n, h, w, 3)
    _: KW_ONLY
    device: torch.device
    cache: Path | None = None  # folder for computed features; None keeps nothing
    flip_average: bool = False  # average features with those of the mirrored image

    def __post_init__(self) -> None:
        self.network.to(device=self.device, memory_format=torch.channels_last).eval()  # pyright: ignore[reportCallIssue]
        self._inputs = partial(inputs, self.images, recipe=self.recipe, device=self.device)
        self._viewing = {"precision": "fp32", "flip_average": self.flip_average}
        self._weights = module_digest(self.network.backbone)  # the head does not shape features
        self.about = {"viewing": self._viewing, "weights_digest": self._weights}  # for the records
        plain = {"jitter": 0.0, "resized_share": 0.0, "cutmix": 0.0}
        size = self.images.shape[1]
        self._copying = replace(self.recipe, crop_size=size, image_size=size, **plain)

    def plain(self, rows: Rows) -> FloatArray:
        """Features (n, d) of the images as they are."""
        return self._cached(rows, {"view": "plain"}, lambda: self._features(self._inputs(rows)))

    def turned(self, rows: Rows, quarters: int) -> FloatArray:
        """Features (n, d) of the images turned by so many quarters of a circle."""
        how = {"view": "turned", "quarters": quarters}
        return self._cached(rows, how, lambda: self._features(x.rot90(quarters, (2, 3)) for x in self._inputs(rows)))

    def copies(self, rows: Rows, count: int, seed: int) -> FloatArray:
        """Features (n, count, d) of augmented copies: crop with padding and flip, no jitter; fixed by seed and row.

        Copies are as large as the images, also where the network was trained on smaller crops.
        """
        places = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()  # a copy's draw depends on the row
        crop = [self._copying.crop_size, self._copying.padding, self._copying.flip]
        how = {"view": "copies", "count": count, "seed": seed, "rows": places, "crop": crop}

        def compute() -> FloatArray:
            return np.stack([self._features(self._shown(rows, copy, seed)) for copy in range(count)], axis=1)

        return self._cached(rows, how, compute)

    def shown_copies(self, rows: Rows, count: int, seed: int) -> Tensor:
        """The copies themselves (n, count, 3, h, w), normalised: what the network sees when `copies` is asked."""
        return torch.stack([torch.cat([*self._shown(rows, copy, seed)]) for copy in range(count)], dim=1)

    def _shown(self, rows: Rows, copy: int, seed: int) -> Iterator[Tensor]:
        """One copy (n, 3, h, w) of each image, some at a time."""
        augment, step = Augment(self._copying, seed).to(self.device), torch.tensor(copy, device=self.device)
        for pixels, places in batches(self.images, rows, self.device):
            yield augment(pixels, torch.arange(len(pixels), device=self.device), step, places)[0]

    @torch.no_grad()
    def _features(self, shown: Iterator[Tensor]) -> FloatArray:
        """Features (n, d) of network inputs, some at a time."""
        parts = [torch.zeros(0, self.network.head.weight.shape[1])]
        for some in shown:
            views = [some, some.flip(3)] if self._viewing["flip_average"] else [some]
            parts.append(torch.stack([self.network.features(view).float() for view in views]).mean(0).cpu())
        return torch.cat(parts).numpy()

    def _cached(self, rows: Rows, how: dict[str, Any], compute: Callable[[], FloatArray]) -> FloatArray:
        if self.cache is None:
            return compute()
        about = {"version": _VERSION, "weights": self._weights, "pixels": pixels_digest(self.images, rows)}
        how |= {**about, "mean": list(self.recipe.mean), "std": list(self.recipe.std), **self._viewing}
        name = hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()[:32]
        path = self.cache / f"{name}.safetensors"
        if path.exists():
            return read_tensors(path)[0]["features"].numpy()
        features = compute()
        write_tensors(path, {"features": torch.from_numpy(features)}, how)
        return features


def pixels_digest(images: NDArray[np.uint8], rows: Rows) -> str:
    """sha256 over images[rows] in order."""
    sha = hashlib.sha256(repr((images.shape[1:], len(rows))).encode())
    for start in range(0, len(rows), CHUNK):
        sha.update(np.ascontiguousarray(images[rows[start : start + CHUNK]]).data)
    return sha.hexdigest()
