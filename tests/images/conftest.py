"""Small image sets and encoded images for the tests of readers and splits."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from subspan.images.imageset import ImageSet

Encode = Callable[..., bytes]


@pytest.fixture(scope="session")
def encode() -> Encode:
    """An image of one colour (or the array given) in any format Pillow writes."""

    def make(colour=(200, 30, 60), size=(84, 84), kind="PNG", mode="RGB", pixels=None, **options) -> bytes:
        image = Image.new(mode, size, colour) if pixels is None else Image.fromarray(pixels)
        file = io.BytesIO()
        image.save(file, kind, **options)
        return file.getvalue()

    return make


@pytest.fixture(scope="session")
def tiny_set() -> Callable[..., ImageSet]:
    """An image set with 1x1 images; the pixel counts up, so that every image is known by its colour."""

    def make(classes=10, per_class=12, keys=None, order_seed=None, **fields) -> ImageSet:
        keys = keys or tuple(f"n{10_000_000 + c}" for c in range(classes))
        labels = np.repeat(np.arange(len(keys)), per_class)
        files = [f"{keys[c]}/{keys[c]}{i:05d}.jpg" for c in range(len(keys)) for i in range(per_class)]
        pixels = np.arange(len(labels) * 3, dtype=np.uint8).reshape(-1, 1, 1, 3)
        order = np.arange(len(labels))
        if order_seed is not None:
            order = np.random.default_rng(order_seed).permutation(order)
        return ImageSet(
            images=pixels[order],
            labels=labels[order].astype(np.int64),
            class_names=tuple(f"name of {key}" for key in keys),
            wnids=keys,
            files=tuple(files[i] for i in order),
            **fields,
        )

    return make


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The real data beside the checkout, where it is there."""
    path = Path(__file__).resolve().parents[3] / "shared" / "data"
    if not path.is_dir():
        pytest.skip(f"the real data is not at {path}")
    return path
