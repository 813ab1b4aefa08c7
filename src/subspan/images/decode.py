"""From encoded images of any kind to uint8 RGB of one size, on all cores.

What becomes of images that are not plain 8-bit RGB:

- greyscale and black-and-white: the same value in all three channels;
- 16 bits per channel: the upper 8 bits; 32-bit integers beyond 16 bits and floating point: refused;
- CMYK, YCbCr, palette: converted to RGB by Pillow;
- alpha, also of a palette: composited on white;
- rotated or mirrored by EXIF: turned upright first;
- animated or with several pages: the first frame;
- another size: the shorter side is scaled and the centre cut out (``fit='crop'``), or both sides are scaled, as this
  field did for miniImageNet (``fit='squash'``);
- HEIC, of phones: where the package pillow-heif is installed;
- corrupt, truncated, empty, no image, or more pixels than ``PIL.Image.MAX_IMAGE_PIXELS`` (four times as many of a JPEG
  that is read at reduced size): :class:`DataError` that names the file. Nothing is skipped.
"""

import io
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import PurePath
from typing import Literal

import numpy as np
from PIL import Image, ImageOps, JpegImagePlugin, UnidentifiedImageError

from subspan.images.imageset import DataError, UInt8Array
from subspan.progress import progress_bar

Fit = Literal["crop", "squash"]
REDUCED = 4  # times the limit of pixels that a JPEG may have which is read at reduced size
HEIF_SUFFIXES = (".heic", ".heif")
HEIF = find_spec("pillow_heif") is not None  # whether there is what reads the photographs of some phones
CHUNK = 64  # images per job: large enough to hide the cost of a job, small enough for a smooth bar


@dataclass(frozen=True)
class ReadOptions:
    """How images are read, whatever their format."""

    size: int | None = 84  # side of the square images; None: as stored, all must agree
    fit: Fit = "crop"  # how images of another shape are fitted: see above
    progress: bool = True


View = tuple[int | None, Fit, Image.Resampling]  # side (None: as it is), how another shape is fitted, how it is scaled


def decode_image(data: bytes, file: str, size: int | None = 84, fit: Fit = "crop") -> UInt8Array:
    """One encoded image as (size, size, 3), or with no size as (height, width, 3) of its own."""
    return decode_views(data, file, [(size, fit, Image.Resampling.BICUBIC)])[0]


def decode_views(data: bytes | Image.Image, file: str, views: Sequence[View]) -> list[UInt8Array]:
    """One image, encoded or opened by Pillow, as each of several views."""
    limit, largest = Image.MAX_IMAGE_PIXELS, max(size or 0 for size, *_ in views)
    try:
        if isinstance(data, Image.Image):
            image = data
        else:
            image = _opened(data)
            if largest and min(image.size) > 4 * largest:
                side = 2 * largest  # JPEG only: decodes at 1/2, 1/4 or 1/8, never below this size
                whole = image.width * image.height
                image.draft("RGB", (side, side))
                if limit is not None and whole > (1 if image.info.get("progressive") else REDUCED) * limit:
                    raise Image.DecompressionBombError  # a progressive one is held whole before it is made smaller
            if limit is not None and image.width * image.height > limit:
                raise Image.DecompressionBombError
        image = _rgb(ImageOps.exif_transpose(image), file)
        if len(views) > 1 and min(image.size) > 4 * largest:
            image = image.reduce(min(image.size) // (2 * largest))  # once, and not for every view
        made = {view: _fitted(image, *view) for view in dict.fromkeys(views)}
        return [made[view] for view in views]
    except DataError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise DataError(f"image {file} has over {limit} pixels, the limit PIL.Image.MAX_IMAGE_PIXELS") from None
    except UnidentifiedImageError:
        hint = (
            "" if HEIF or PurePath(file).suffix.lower() not in HEIF_SUFFIXES else "; pip install pillow-heif reads HEIC"
        )
        raise DataError(f"image {file} is not in a format that Pillow knows{hint}") from None
    except Exception as error:  # Pillow's plugins raise what their parsers meet: OSError, SyntaxError, struct.error ...
        raise DataError(f"image {file} is corrupt or truncated: {error}") from error


def _opened(data: bytes) -> Image.Image:
    """An encoded image, not decoded yet. A JPEG may have more pixels than Pillow opens, as it can be read smaller."""
    if data.startswith(b"\xff\xd8\xff"):
        return JpegImagePlugin.jpeg_factory(io.BytesIO(data))
    if HEIF:
        import_module("pillow_heif").register_heif_opener()
    return Image.open(io.BytesIO(data))


def decode_all(read: Callable[[int], bytes], files: Sequence[str], options: ReadOptions) -> UInt8Array:
    """Images (n, height, width, 3) from their encoded bytes ``read(i)``, in threads: Pillow decodes outside the GIL.

    With no size given all images must have the size of the first. A bad image ends the work; the error names it.
    """

    def one(index: int) -> UInt8Array:
        return decode_image(read(index), files[index], options.size, options.fit)

    return _fill(one, files, options, "decoding images")


def resize_all(arrays: Sequence[UInt8Array] | UInt8Array, files: Sequence[str], options: ReadOptions) -> UInt8Array:
    """Decoded images (n, height, width, 3), or a sequence of (height, width, 3), in the size wanted."""
    size = options.size
    if isinstance(arrays, np.ndarray) and (size is None or arrays.shape[1:3] == (size, size)):
        return arrays
    return _fill(lambda i: _fitted(Image.fromarray(arrays[i]), size, options.fit), files, options, "scaling images")


def _fill(one: Callable[[int], UInt8Array], files: Sequence[str], options: ReadOptions, description: str) -> UInt8Array:
    """``one(i)`` for every file, in threads, in one array (n, height, width, 3)."""
    size, n = options.size, len(files)
    if size is not None and size < 1:
        raise DataError(f"the size of images must be at least 1, got {size}")
    if n == 0:
        return np.empty((0, size or 0, size or 0, 3), dtype=np.uint8)
    shape = (size, size, 3) if size is not None else one(0).shape
    images = np.empty((n, *shape), dtype=np.uint8)

    def job(first: int) -> int:
        last = min(first + CHUNK, n)
        for i in range(first, last):
            pixels = one(i)
            if pixels.shape != shape:
                raise DataError(
                    f"image {files[i]} is {pixels.shape[1]}x{pixels.shape[0]} and {files[0]} {shape[1]}x{shape[0]}: "
                    "without a size given all images must have one size"
                )
            images[i] = pixels
        return last - first

    with (
        progress_bar(description, n, options.progress) as advance,
        ThreadPoolExecutor(usable_cores()) as pool,
    ):
        try:
            for done in pool.map(job, range(0, n, CHUNK)):
                advance(done)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return images


def usable_cores() -> int:
    """Cores this process may use; where the system cannot tell, all there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rgb(image: Image.Image, file: str) -> Image.Image:
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode == "F":
        raise DataError(f"image {file} has floating-point pixels; 8 or 16 bits per channel are taken")
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.size and not 0 <= values.min() <= values.max() < 2**16:
            raise DataError(f"image {file} has pixels up to {values.max()}; 8 or 16 bits per channel are taken")
        return Image.fromarray((values.astype(np.uint16) >> 8).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        with_alpha = image.convert("RGBA")
        white = Image.new("RGBA", with_alpha.size, "white")
        return Image.alpha_composite(white, with_alpha).convert("RGB")
    return image.convert("RGB")


def _fitted(
    image: Image.Image, size: int | None, fit: Fit, resample: Image.Resampling = Image.Resampling.BICUBIC
) -> UInt8Array:
    if size is not None and image.size != (size, size):
        if fit == "squash":
            image = image.resize((size, size), resample)
        elif fit == "crop":
            image = ImageOps.fit(image, (size, size), resample)
        else:
            raise DataError(f"fit must be 'crop' or 'squash', got {fit!r}")
    return np.asarray(image, dtype=np.uint8)
