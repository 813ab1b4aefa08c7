"""What every pretrained network gives: its preprocessing, a digest of its weights, and features of photographs."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.images.classfiles import ImageFile, read_file
from subspan.images.decode import Fit, View, decode_views, usable_cores
from subspan.images.imageset import DataError

if TYPE_CHECKING:  # torch is loaded where a network of torch is
    from torch import nn

Pixels = NDArray[np.uint8]
Prepared = tuple[Pixels, ...]  # one photograph, (size, size, 3) for each view of a network
Image = bytes | str | os.PathLike[str] | PIL.Image.Image | Pixels | ImageFile
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"]


class BackboneError(ValueError):
    """A backbone cannot be found or loaded; the message says what to install or which name to give."""


@dataclass(frozen=True)
class Preprocessing:
    """How a photograph becomes the input of a network; it is stored with every model that uses the network.

    The shorter side is scaled to ``resize`` pixels (``fit="crop"``) or both sides are (``"squash"``), the middle
    ``size`` x ``size`` cut out, ``mirrored`` or not, and each channel of the values in [0, 1] shifted by ``mean`` and
    divided by ``std``.

    >>> Preprocessing(size=2, resize=4).pixels(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))[..., 0].tolist()
    [[15, 18], [27, 30]]
    """

    size: int = 224
    resize: int = 256
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)
    interpolation: Interpolation = "bicubic"
    fit: Fit = "crop"
    mirrored: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.size <= self.resize:
            raise BackboneError(f"preprocessing needs 1 <= size <= resize; got {self.size} and {self.resize}")
        if len(self.mean) != 3 or len(self.std) != 3 or not min(self.std) > 0:
            raise BackboneError(f"preprocessing needs three means and positive stds; got {self.mean} and {self.std}")
        if self.interpolation not in get_args(Interpolation):
            known = ", ".join(get_args(Interpolation))
            raise BackboneError(f"interpolation must be one of {known}; got {self.interpolation!r}")

    def pixels(self, image: Image, name: str = "given") -> Pixels:
        """One photograph as (size, size, 3); a bad one is a `DataError` that names it."""
        return prepare((self,), image, name)[0]

    @property
    def scaling(self) -> View:
        """What `decode_views` makes of a photograph before `cut`."""
        return self.resize, self.fit, PIL.Image.Resampling[self.interpolation.upper()]

    def cut(self, square: Pixels) -> Pixels:
        """The middle (size, size, 3) of a scaled photograph (resize, resize, 3)."""
        start = (self.resize - self.size) // 2
        middle = square[start : start + self.size, start : start + self.size]
        return middle[:, ::-1] if self.mirrored else middle

    def inputs(self, pixels: Pixels) -> FloatArray:
        """uint8 (n, size, size, 3) to network inputs (n, 3, size, size)."""
        mean, std = (np.asarray(values, np.float32)[:, None, None] for values in (self.mean, self.std))
        values = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)).astype(np.float32)  # moved as bytes, then in place
        values *= 1 / (255 * std)
        values -= mean / std
        return values

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in vars(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Preprocessing":
        """The inverse of `to_dict`."""
        plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**plain)


def prepare(views: Sequence[Preprocessing], image: Image, name: str = "given") -> Prepared:
    """One photograph in each of the views, decoded once; a bad one is a `DataError` that names it."""
    if isinstance(image, ImageFile):
        image, name = image.read(), image.file
    elif isinstance(image, os.PathLike | str):
        name = os.fspath(image)
        image = read_file(Path(image))
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
            raise DataError(f"image {name} must be uint8 (height, width, 3); got {image.dtype} {tuple(image.shape)}")
        image = PIL.Image.fromarray(image)
    if not isinstance(image, PIL.Image.Image | bytes):
        raise DataError(f"image {name} must be bytes, a path, a Pillow image or an array; got {type(image).__name__}")
    squares = decode_views(image, name, [view.scaling for view in views])
    return tuple(view.cut(square) for view, square in zip(views, squares, strict=True))


class Backbone(ABC):
    """A network from photographs to features (n, dim), frozen; safe to use from several threads at once.

    Attributes
    ----------
    name : as `load_backbone` takes it.
    dim : width of the features.
    views : how photographs are shown to it; most networks have one, their ``preprocessing``.
    digest : SHA-256 of its weights; features of different weights do not mix.
    """

    dim: int
    preprocessing: Preprocessing
    batch = 32  # images that are decoded and seen at once; larger batches are no faster on a CPU

    def __init__(self, name: str, digest: str, wanted: str | None = None) -> None:
        """Weights of another digest than the wanted one are refused."""
        self.name, self.digest = name, digest
        if wanted not in (None, digest):
            raise BackboneError(
                f"backbone '{name}' has other weights (SHA-256 {digest[:12]}...) than this model was made with "
                f"({wanted[:12]}...)"
            )

    @property
    def views(self) -> tuple[Preprocessing, ...]:
        return (self.preprocessing,)

    @abstractmethod
    def forward(self, *views: Pixels) -> FloatArray:
        """Features (n, dim) of prepared images, (n, size, size, 3) for each view."""

    def features(
        self,
        images: Sequence[Image],
        *,
        advance: Callable[[int], None] | None = None,
        bad: Callable[[int, DataError], None] | None = None,
    ) -> FloatArray:
        """Features (n, dim) of photographs: encoded bytes, paths, Pillow images or uint8 arrays (height, width, 3).

        Parameters
        ----------
        advance : called with the number of images just done.
        bad : called with the place and the error of an image that cannot be read, whose features are then NaN; without
            it the error is raised.
        """
        features = np.full((len(images), self.dim), np.nan, np.float32)
        batches = [range(i, min(i + self.batch, len(images))) for i in range(0, len(images), self.batch)]

        def prepared(place: int) -> Prepared | DataError:
            try:
                return prepare(self.views, images[place], f"number {place + 1}")
            except DataError as error:
                return error

        with ThreadPoolExecutor(usable_cores()) as pool:
            jobs = [pool.map(prepared, places) for places in batches[:1]]
            for places, following in zip(batches, [*batches[1:], range(0)], strict=False):
                results = list(jobs.pop())
                jobs.append(pool.map(prepared, following))  # decoded while the network works
                good: dict[int, Prepared] = {}
                for place, result in zip(places, results, strict=True):
                    if isinstance(result, tuple):
                        good[place] = result
                    elif bad is None:
                        raise result
                    else:
                        bad(place, result)
                if good:
                    features[list(good)] = self.forward(*map(np.stack, zip(*good.values(), strict=True)))
                if advance is not None:
                    advance(len(places))
        return features

    def about(self) -> dict[str, Any]:
        """What a model stores of its backbone."""
        return {
            "name": self.name,
            "dim": self.dim,
            "digest": self.digest,
            "preprocessing": [view.to_dict() for view in self.views],
        }


def sees_gpu() -> bool:
    """Whether torch is here and sees a GPU; it is not loaded to say so where there is no driver of one."""
    if "torch" not in sys.modules and not Path("/dev/nvidiactl").exists():
        return False
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


class TorchBackbone(Backbone):
    """A torch module from normalised images (n, 3, size, size) to features (n, dim), of this digest if one is given."""

    def __init__(self, name: str, module: "nn.Module", preprocessing: Preprocessing, digest: str | None = None) -> None:
        import torch

        from subspan.backbones.network import feature_dim, module_digest

        super().__init__(name, module_digest(module), digest)
        self.device = torch.device("cuda" if sees_gpu() else "cpu")
        # Three times faster on a CPU than the usual order of channels.
        self.module = module.eval().requires_grad_(False).to(self.device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self.preprocessing = preprocessing
        self.dim = feature_dim(self.module, preprocessing.size)

    def forward(self, *views: Pixels) -> FloatArray:
        import torch

        (pixels,) = views
        with torch.inference_mode():
            inputs = torch.from_numpy(self.preprocessing.inputs(pixels))
            return self.module(inputs.to(self.device, memory_format=torch.channels_last)).float().cpu().numpy()
