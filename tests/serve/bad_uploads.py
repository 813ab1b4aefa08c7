"""Uploads that must be refused: each a name, the bytes, and the status that says why."""

import io
import struct
import zipfile
import zlib

import numpy as np
from PIL import Image

import made_photographs as made


def png(width: int, height: int, rows: bytes = b"") -> bytes:
    """A PNG that says it has this size, greyscale, whatever its rows are."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def webp_that_says(width: int, height: int) -> bytes:
    """A WebP of few pixels whose header promises many."""
    data = bytearray(made.encoded(np.zeros((4, 4, 3), np.uint8), "WEBP"))
    canvas = b"VP8X" + struct.pack("<I", 10) + bytes(4)
    canvas += (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    content = b"WEBP" + canvas + data[12:]
    return b"RIFF" + struct.pack("<I", len(content)) + content


def jpeg_of_many_scans() -> bytes:
    """A progressive JPEG whose last scan is repeated a thousand times."""
    stream = io.BytesIO()
    Image.fromarray(made.photographs("red", 1)[0]).save(stream, "JPEG", progressive=True)
    data = stream.getvalue()
    last = data[data.rindex(b"\xff\xda") : -2]
    return data[:-2] + last * 1000 + data[-2:]


def zipped() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("photo.png", made.encoded(made.photographs("red", 1)[0]))
    return stream.getvalue()


def floats() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.zeros((8, 8), np.float32)).save(stream, "TIFF")
    return stream.getvalue()


_photo = made.photographs("red", 1)[0]
_png, _jpeg = made.encoded(_photo), made.encoded(_photo, "JPEG")
_gif = made.encoded(_photo, "GIF")
_damaged = bytearray(_png)
_damaged[len(_damaged) // 2] ^= 0xFF

BAD_UPLOADS: dict[str, tuple[bytes, int]] = {
    "empty": (b"", 422),
    "one byte": (b"\xff", 415),
    "text": (b"just some words", 415),
    "HTML": (b"<!doctype html><script>alert(1)</script>", 415),
    "SVG": (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script/></svg>', 415),
    "SVG that includes a file": (b'<!DOCTYPE svg [<!ENTITY x SYSTEM "file:///etc/passwd">]><svg>&x;</svg>', 415),
    "PDF": (b"%PDF-1.4\n1 0 obj << >> endobj", 415),
    "PostScript": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n", 415),
    "zip": (zipped(), 415),
    "program": (b"\x7fELF" + bytes(100), 415),
    "TIFF": (floats(), 415),
    "truncated PNG": (_png[: len(_png) // 2], 422),
    "truncated JPEG": (_jpeg[: len(_jpeg) // 2], 422),
    "only the first bytes of a PNG": (_png[:8], 415),
    "only the first bytes of a JPEG": (_jpeg[:3], 415),
    "a flipped byte": (bytes(_damaged), 422),
    "huge dimensions, no pixels": (png(2**31 - 1, 2**31 - 1), 413),
    "over the limit, no pixels": (png(10_000, 10_000), 413),
    "within the limit, no pixels": (png(7_000, 7_000), 422),
    "bomb": (png(30_000, 30_000, bytes(10_000_000)), 413),
    "no width": (png(0, 10), 415),
    "WebP with a huge canvas": (webp_that_says(2**24, 2**24), 413),
    "WebP with another canvas than its frame": (webp_that_says(4000, 4000), 422),
    "JPEG of a thousand scans": (jpeg_of_many_scans(), 422),
    "GIF that promises much": (_gif[:6] + struct.pack("<HH", 65535, 65535) + _gif[10:], 413),
    "BMP that promises much": (
        b"BM" + struct.pack("<IHHIIIIHHI", 70, 0, 0, 54, 40, 60000, 60000, 1, 24, 0) + bytes(20),
        413,
    ),
}
