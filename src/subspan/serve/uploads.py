"""Which uploads are looked at: what is no image, too large or a trap is refused by its header, and before it costs."""

import io
from dataclasses import dataclass
from typing import BinaryIO

import PIL.Image

from subspan.images.classfiles import ImageFile
from subspan.serve.bodies import RefusedError
from subspan.serve.settings import ServeSettings

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")  # what browsers show
SCANS = 64  # of a JPEG; cameras write one, progressive encoders about ten, traps thousands
JPEG_SHARE = 8  # a JPEG is decoded at reduced size, and costs about this part of what other images of its size do


@dataclass(frozen=True)
class Upload:
    image: ImageFile
    pixels: int  # what it will cost


def read_upload(file: BinaryIO, number: int, limits: ServeSettings) -> Upload:
    """An image that may be looked at, called by its number among those of the request; or a refusal that does so."""
    data, name = file.read(limits.max_image_bytes + 1), f"number {number}"
    if not data:
        raise RefusedError(422, f"image {name} is empty")
    if len(data) > limits.max_image_bytes:
        raise RefusedError(413, f"image {name} has more than {limits.max_image_bytes} bytes")
    pixels, is_jpeg = limits.max_pixels + 1, False
    try:
        with PIL.Image.open(io.BytesIO(data), formats=FORMATS) as image:
            pixels, is_jpeg = image.width * image.height, image.format == "JPEG"
    except PIL.Image.DecompressionBombError:
        pass  # it has more than twice the most that Pillow decodes
    except PIL.UnidentifiedImageError:
        raise RefusedError(415, f"image {name} is none of {', '.join(FORMATS)}") from None
    except Exception as error:  # Pillow's plugins raise whatever their parsers meet
        raise RefusedError(422, f"image {name} is corrupt or truncated") from error
    if pixels > limits.max_pixels:
        raise RefusedError(413, f"image {name} has more than {limits.max_pixels} pixels")
    # Every scan of a progressive JPEG costs a pass over all pixels; the marker cannot occur inside a scan.
    if is_jpeg and data.count(b"\xff\xda") > SCANS:
        raise RefusedError(422, f"image {name} is a JPEG of more than {SCANS} scans")
    return Upload(ImageFile(name, lambda: data), pixels // JPEG_SHARE if is_jpeg else pixels)
