"""Features of images with a trained network, in evaluation mode, cached by everything they depend on.

The name of a cached array is a hash of the backbone's weights, of the pixels and of the way they are shown, so a
changed input never meets a stale cache.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from subspan.arrays import FloatArray
from subspan.backbones.checkpoint import read_tensors, write_tensors
from subspan.backbones.heads import CosineHead
from subspan.backbones.modules import module_digest
from subspan.backbones.network import Network
from subspan.train.augment import Augment
from subspan.train.evaluate import CHUNK, batches, evaluation_mode
from subspan.train.recipe import Recipe
from subspan.values import check_options, normalised, option

Precision = Literal["fp32", "bf16"]

_VERSION = 1  # of the way features are computed: raise it when that changes
_CORNERS = (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)


@dataclass(frozen=True)
class Viewing:
    """How the network looks at images when features are computed."""

    precision: Precision = option("fp32", "arithmetic of the network, fp32 or bf16")
    flip_average: bool = option(False, "average features with those of the mirrored image")
    zoom_average: float = option(
        0.0, "average features with those of the middle of the image, this share of its side, scaled up; 0: none"
    )
    corner_average: float = option(
        0.0,
        "average features with the mean over the four corners of the image, each this share of its side, scaled up; "
        "0: none",
    )

    def __post_init__(self) -> None:
        check_options(self, below_one=("zoom_average", "corner_average"))
        if self.precision not in get_args(Precision):
            raise ValueError(f"precision must be one of {', '.join(get_args(Precision))}, got {self.precision!r}")


class Extractor:
    """Features of rows of one array of images.

    Args:
        network: trained; it is moved to ``device`` and put in evaluation mode while it works.
        recipe: its normalisation, and its padding and mirroring for augmented copies.
        images: uint8 (n, h, w, 3).
        cache: folder for computed features; None keeps nothing.
        viewing: arithmetic (fp32 means a GPU's usual convolution arithmetic for it) and averaging.
    """

    def __init__(
        self,
        network: Network,
        recipe: Recipe,
        images: NDArray[np.uint8],
        *,
        device: torch.device,
        cache: Path | None = None,
        viewing: Viewing | None = None,
    ) -> None:
        self._network = network.to(device=device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self._recipe, self._images, self._device = recipe, images, device
        self._cache, self._viewing = cache, viewing or Viewing()
        self._weights = module_digest(network.backbone)  # the head does not shape features

    @property
    def about(self) -> dict[str, Any]:
        """How the features are computed, for the records."""
        return {"viewing": dataclasses.asdict(self._viewing), "weights_digest": self._weights}

    @property
    def cosine(self) -> bool:
        """Whether the head sees the direction of features only."""
        return isinstance(self._network.head, CosineHead)

    def plain(self, rows: NDArray[np.int64]) -> FloatArray:
        """Features (n, d) of the images as they are."""
        return self._cached(rows, {"view": "plain"}, lambda: self._run(rows, self._show_plain))

    def turned(self, rows: NDArray[np.int64], quarters: int) -> FloatArray:
        """Features (n, d) of the images turned by so many quarters of a circle."""

        def show(pixels: Tensor, chosen: Tensor) -> Tensor:
            return self._show_plain(pixels, chosen).rot90(quarters, (2, 3))

        return self._cached(rows, {"view": "turned", "quarters": quarters}, lambda: self._run(rows, show))

    def copies(self, rows: NDArray[np.int64], count: int, seed: int) -> FloatArray:
        """Features (n, count, d) of augmented copies: crop with padding and flip, no jitter; fixed by seed and row.

        Copies are as large as the images, also where the network was trained on smaller crops.
        """
        if count < 1:
            raise ValueError(f"at least one copy of an image is needed, got {count}")
        recipe = self._copying_recipe
        places = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()  # a copy's draw depends on the row
        crop = [recipe.crop_size, recipe.padding, recipe.flip]
        how = {"view": "copies", "count": count, "seed": seed, "rows": places, "crop": crop}

        def compute() -> FloatArray:
            return np.stack([self._run(rows, self._show_copy(copy, seed)) for copy in range(count)], axis=1)

        return self._cached(rows, how, compute)

    def shown_copies(self, rows: NDArray[np.int64], count: int, seed: int) -> Tensor:
        """The copies themselves (n, count, 3, h, w), normalised: what the network sees when `copies` is asked."""
        every = []
        for copy in range(count):
            show = self._show_copy(copy, seed)
            every.append(torch.cat([show(*batch) for batch in batches(self._images, rows, self._device)]))
        return torch.stack(every, dim=1)

    @property
    def _copying_recipe(self) -> Recipe:
        size = self._images.shape[1]
        plain = {"jitter": 0.0, "resized_share": 0.0, "rotation_share": 0.0, "cutmix": 0.0}
        return dataclasses.replace(self._recipe, crop_size=size, image_size=size, **plain)

    def _show_copy(self, copy: int, seed: int) -> Callable[[Tensor, Tensor], Tensor]:
        augment = Augment(self._copying_recipe, 1, seed).to(self._device)
        step = torch.tensor(copy, device=self._device)

        def show(pixels: Tensor, chosen: Tensor) -> Tensor:
            local = torch.arange(len(pixels), device=self._device)
            return augment(pixels, local, torch.zeros_like(local), step, chosen)[0]

        return show

    def _show_plain(self, pixels: Tensor, _chosen: Tensor) -> Tensor:
        return normalised(pixels, self._recipe.mean, self._recipe.std)

    def _run(self, rows: NDArray[np.int64], show: Any) -> FloatArray:
        parts: list[Tensor] = []
        with (
            evaluation_mode(self._network),
            torch.autocast(self._device.type, torch.bfloat16, enabled=self._viewing.precision == "bf16"),
        ):
            for batch in batches(self._images, rows, self._device):
                features = [torch.stack([*map(self._look, kind)]).mean(0) for kind in self._views(show(*batch))]
                parts.append(torch.stack(features).mean(0).cpu())
        dim = self._network.head.weight.shape[1]
        return torch.cat(parts).numpy() if parts else np.zeros((0, dim), dtype=np.float32)

    def _look(self, view: Tensor) -> Tensor:
        """Features (n, d) of images as they are, or averaged with their mirror images'."""
        views = [view, view.flip(3)] if self._viewing.flip_average else [view]
        return torch.stack([self._network.features(each).float() for each in views]).mean(0)

    def _views(self, inputs: Tensor) -> list[list[Tensor]]:
        """Images (n, 3, h, w) in all kinds of ways over which features are averaged, and all ways of each kind."""
        kinds = [[inputs]]
        if self._viewing.zoom_average > 0:
            kinds.append([enlarged(inputs, self._viewing.zoom_average, (0.5, 0.5))])
        if self._viewing.corner_average > 0:
            kinds.append([enlarged(inputs, self._viewing.corner_average, corner) for corner in _CORNERS])
        return kinds

    def _cached(self, rows: NDArray[np.int64], how: dict[str, Any], compute: Any) -> FloatArray:
        if self._cache is None:
            return compute()
        how = {
            **how,
            "version": _VERSION,
            "weights": self._weights,
            "pixels": pixels_digest(self._images, rows),
            "mean": list(self._recipe.mean),
            "std": list(self._recipe.std),
            **dataclasses.asdict(self._viewing),
        }
        for younger in ("zoom_average", "corner_average"):  # than the first caches, which stay good
            if getattr(self._viewing, younger) == 0:
                del how[younger]
        name = hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()[:32]
        path = self._cache / f"{name}.safetensors"
        if path.exists():
            return read_tensors(path)[0]["features"].numpy()
        features = compute()
        self._cache.mkdir(parents=True, exist_ok=True)
        write_tensors(path, {"features": torch.from_numpy(features)}, how)
        return features


def enlarged(images: Tensor, share: float, place: tuple[float, float]) -> Tensor:
    """A part of images (n, 3, h, w), ``share`` of each side, scaled up to their size; channels last in memory.

    Args:
        place: how far down and to the right it lies, from 0 to 1.
    """
    sides = images.shape[2:]
    kept = [max(1, round(share * side)) for side in sides]
    top, left = (int(far * (side - part)) for far, side, part in zip(place, sides, kept, strict=True))
    inner = images[:, :, top : top + kept[0], left : left + kept[1]]
    scaled = interpolate(inner, size=tuple(sides), mode="bilinear", align_corners=False)
    return scaled.contiguous(memory_format=torch.channels_last)


def pixels_digest(images: NDArray[np.uint8], rows: NDArray[np.int64]) -> str:
    """sha256 over images[rows] in order."""
    sha = hashlib.sha256(repr((images.shape[1:], len(rows))).encode())
    for start in range(0, len(rows), CHUNK):
        sha.update(np.ascontiguousarray(images[rows[start : start + CHUNK]]).data)
    return sha.hexdigest()
