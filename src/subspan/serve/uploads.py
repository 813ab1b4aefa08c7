"""From uploaded bytes to pixels: what is no image, too large or a trap is refused before it is decoded.

Sizes are taken from headers, before a single pixel is unpacked. Images of more than `LARGE` pixels are all decoded by
one thread, so that the memory of the process stays bounded however many arrive together. (A lock would not do: the C
library keeps what a thread has freed for that thread.)
"""

import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import BinaryIO

import PIL.Image

from subspan.images.errors import DataError
from subspan.pretrained.backbone import Prepared, Preprocessing, prepare
from subspan.serve.bodies import RefusedError
from subspan.serve.settings import ServeSettings

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")  # what browsers show
SCANS = 64  # of a JPEG; cameras write one, progressive encoders about ten, traps thousands
LARGE = 8_000_000


class Decoder:
    """Uploads to what a backbone of these views takes as it is."""

    def __init__(self, views: Sequence[Preprocessing], settings: ServeSettings) -> None:
        self.views, self.settings = views, settings
        self._large = ThreadPoolExecutor(1, "subspan-large")

    def prepared(
        self, files: Sequence[BinaryIO], advance: Callable[[int], object] = lambda done: None
    ) -> list[Prepared]:
        """All uploads, or a refusal that says by number which one was bad; ``advance`` gets how many are done."""
        photographs = []
        for number, file in enumerate(files, 1):
            photographs.append(self._prepared(file.read(self.settings.max_image_bytes + 1), f"number {number}"))
            advance(number)
        return photographs

    def _prepared(self, data: bytes, name: str) -> Prepared:
        pixels = self._check(data, name)
        work = partial(prepare, self.views, data, name)
        try:
            return self._large.submit(work).result() if pixels > LARGE else work()
        except DataError as error:
            raise RefusedError(422, str(error)) from error

    def _check(self, data: bytes, name: str) -> int:
        """How many pixels the image has, by its header."""
        limits = self.settings
        if not data:
            raise RefusedError(422, f"image {name} is empty")
        if len(data) > limits.max_image_bytes:
            raise RefusedError(413, f"image {name} has more than {limits.max_image_bytes} bytes")
        too_many = RefusedError(413, f"image {name} has more than {limits.max_pixels} pixels")
        # Pillow prepares memory for all pixels of a WebP when it only opens it: look at its header first.
        if webp_pixels(data) > limits.max_pixels:
            raise too_many
        try:
            with PIL.Image.open(io.BytesIO(data), formats=FORMATS) as image:
                pixels, kind = image.width * image.height, image.format
        except PIL.Image.DecompressionBombError:
            raise too_many from None
        except PIL.UnidentifiedImageError:
            raise RefusedError(415, f"image {name} is none of {', '.join(FORMATS)}") from None
        except Exception as error:  # Pillow's plugins raise whatever their parsers meet
            raise RefusedError(422, f"image {name} is corrupt or truncated") from error
        if pixels > limits.max_pixels:
            raise too_many
        # Every scan of a progressive JPEG costs a pass over all pixels; the marker cannot occur inside a scan.
        if kind == "JPEG" and data.count(b"\xff\xda") > SCANS:
            raise RefusedError(422, f"image {name} is a JPEG of more than {SCANS} scans")
        return pixels


def webp_pixels(data: bytes) -> int:
    """Pixels that the header of a WebP promises; 0 for anything else."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return 0
    kind = data[12:16]
    if kind == b"VP8X":
        return (1 + int.from_bytes(data[24:27], "little")) * (1 + int.from_bytes(data[27:30], "little"))
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (1 + (bits & 0x3FFF)) * (1 + (bits >> 14 & 0x3FFF))
    if kind == b"VP8 ":
        return (int.from_bytes(data[26:28], "little") & 0x3FFF) * (int.from_bytes(data[28:30], "little") & 0x3FFF)
    return 0
