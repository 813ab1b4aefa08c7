"""Images that are not plain RGB: each kind has one defined outcome, and an error names the file."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from subspan.images import decode
from subspan.images.decode import ReadOptions, decode_all, decode_image, resize_all
from subspan.images.imageset import DataError

RED, WHITE, BLACK = [255, 0, 0], [255, 255, 255], [0, 0, 0]


def test_plain_rgb_is_exact(encode):
    pixels = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)
    assert np.array_equal(decode_image(encode(pixels=pixels), "a.png"), pixels)


def test_greyscale_has_three_equal_channels(encode):
    assert decode_image(encode(77, mode="L"), "a.png")[3, 5].tolist() == [77, 77, 77]
    assert decode_image(encode(1, mode="1"), "a.png")[3, 5].tolist() == WHITE


def test_cmyk_jpeg_becomes_rgb(encode):
    pixel = decode_image(encode((0, 255, 255, 0), mode="CMYK", kind="JPEG", quality=100), "a.jpg")[3, 5]
    assert np.abs(pixel.astype(int) - RED).max() <= 3


def test_alpha_is_composited_on_white(encode):
    assert decode_image(encode((0, 0, 0, 0), mode="RGBA"), "a.png")[0, 0].tolist() == WHITE
    half = decode_image(encode((255, 0, 0, 128), mode="RGBA"), "a.png")[0, 0].tolist()
    assert half == [255, 127, 127]
    assert decode_image(encode((0, 0), mode="LA"), "a.png")[0, 0].tolist() == WHITE


def test_palette_with_and_without_transparency(encode):
    image = Image.new("P", (84, 84), 1)
    image.putpalette([0, 0, 0, 255, 0, 0])
    for options, expected in (({}, RED), ({"transparency": 1}, WHITE)):
        file = io.BytesIO()
        image.save(file, "PNG", **options)
        assert decode_image(file.getvalue(), "a.png")[0, 0].tolist() == expected


def test_transparent_colour_of_an_rgb_png_is_white(encode):
    assert decode_image(encode((9, 8, 7), transparency=(9, 8, 7)), "a.png")[0, 0].tolist() == WHITE


def test_sixteen_bits_keep_the_upper_eight(encode):
    values = np.full((84, 84), 0x12FF, dtype=np.uint16)
    for kind in ("PNG", "TIFF"):
        assert decode_image(encode(pixels=values, kind=kind), "a")[0, 0].tolist() == [0x12, 0x12, 0x12]


def test_wider_integers_and_floats_are_refused(encode):
    with pytest.raises(DataError, match=r"image a.tif has pixels up to 70000"):
        decode_image(encode(pixels=np.full((8, 8), 70000, dtype=np.int32), kind="TIFF"), "a.tif")
    with pytest.raises(DataError, match=r"image a.tif has floating-point pixels"):
        decode_image(encode(pixels=np.zeros((8, 8), dtype=np.float32), kind="TIFF"), "a.tif")


@pytest.mark.parametrize(
    ("orientation", "corner"), [(1, (0, 0)), (2, (0, -1)), (3, (-1, -1)), (4, (-1, 0)), (6, (0, -1)), (8, (-1, 0))]
)
def test_exif_turns_the_image_upright(encode, orientation, corner):
    pixels = np.zeros((84, 84, 3), dtype=np.uint8)
    pixels[:20, :20] = 255  # stored at the top left; a viewer shows it at `corner`
    exif = Image.Exif()
    exif[0x0112] = orientation
    shown = decode_image(encode(pixels=pixels, kind="JPEG", quality=95, exif=exif), "a.jpg")
    bright = [at for at in [(0, 0), (0, -1), (-1, 0), (-1, -1)] if shown[at].mean() > 200]
    assert bright == [corner]


def test_animated_images_give_their_first_frame():
    frames = [Image.new("RGB", (84, 84), colour) for colour in ("red", "blue")]
    for kind in ("GIF", "WEBP", "PNG", "TIFF"):
        file = io.BytesIO()
        options = {"lossless": True} if kind == "WEBP" else {}
        frames[0].save(file, kind, save_all=True, append_images=frames[1:], **options)
        assert decode_image(file.getvalue(), "a")[40, 40].tolist() == RED


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
@pytest.mark.parametrize("kept", [0.0, 0.01, 0.5, 0.95])
def test_truncated_images_are_refused_by_name(encode, kind, kept):
    pixels = np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)
    data = encode(pixels=pixels, kind=kind)
    with pytest.raises(DataError, match=r"image dir/a.img is"):
        decode_image(data[: int(kept * len(data))], "dir/a.img")


def test_corrupt_bytes_and_other_files_are_refused_by_name(encode):
    data = bytearray(encode(pixels=np.random.default_rng(0).integers(0, 256, (84, 84, 3), dtype=np.uint8)))
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(DataError, match=r"image a.png is corrupt or truncated"):
        decode_image(bytes(data), "a.png")
    with pytest.raises(DataError, match=r"image notes.png is not in a format that Pillow knows"):
        decode_image(b"just text", "notes.png")


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("side", [10_000, 30_000])  # Pillow warns above the limit and stops above twice the limit
def test_a_decompression_bomb_is_one_clear_error(side):
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    with pytest.raises(DataError, match=r"image bomb.png has over 89478485 pixels"):
        decode_image(bomb, "bomb.png")


@pytest.mark.parametrize(
    ("kind", "side", "more", "reads"),
    [
        ("JPEG", 380, {}, True),  # more than Pillow opens, at most four times as many
        ("JPEG", 420, {}, False),
        ("JPEG", 380, {"progressive": True}, False),  # is held whole before it is made smaller
        ("PNG", 380, {}, False),
    ],
)
def test_jpegs_beyond_the_limit_are_read_at_reduced_size(monkeypatch, kind: str, side: int, more: dict, reads: bool):
    stream = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), (200, 40, 40), np.uint8)).save(stream, kind, **more)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 200 * 200)
    if reads:
        pixels = decode_image(stream.getvalue(), "phone.jpg", 20)
        assert np.abs(pixels.astype(int) - (200, 40, 40)).max() < 8
    else:
        with pytest.raises(DataError, match=r"phone\.jpg has over 40000 pixels"):
            decode_image(stream.getvalue(), "phone.jpg", 20)


def test_heic_says_what_reads_it(monkeypatch):
    monkeypatch.setattr("subspan.images.decode.HEIF", False)
    with pytest.raises(DataError, match="not in a format that Pillow knows; pip install pillow-heif reads HEIC"):
        decode_image(b"\0\0\0\x18ftypheic", "IMG_1.HEIC")


def test_crop_keeps_the_centre_and_squash_keeps_all():
    wide = np.zeros((40, 120, 3), dtype=np.uint8)
    wide[:, 40:80] = 255  # the centre third is white
    for fit, white in (("crop", 1.0), ("squash", 1 / 3)):
        (small,) = resize_all([wide], ["a"], ReadOptions(size=30, fit=fit))
        assert small.shape == (30, 30, 3)
        assert abs(small.mean() / 255 - white) < 0.05


def test_a_large_photograph_is_scaled_like_a_small_one(encode):
    ramp = np.linspace(0, 255, 3000).astype(np.uint8)
    photograph = np.broadcast_to(ramp[None, :, None], (2000, 3000, 3)).copy()
    small = decode_image(encode(pixels=photograph, kind="JPEG", quality=90), "a.jpg", size=84)
    expected = 255 * (500 + (np.arange(84) + 0.5) * 2000 / 84) / 3000  # the middle 2000 of 3000 columns
    assert np.abs(small[40, :, 1] - expected).max() < 4


def test_all_images_in_order_whatever_the_number_of_threads(encode, monkeypatch):
    data = [encode((i, 2 * i, 255 - i), size=(4, 4)) for i in range(200)]
    files = [f"{i}.png" for i in range(200)]
    for workers in (1, 7):
        monkeypatch.setattr(decode, "usable_cores", lambda count=workers: count)
        images = decode_all(data.__getitem__, files, ReadOptions(size=4))
        assert images.shape == (200, 4, 4, 3)
        assert images[:, 1, 2, 0].tolist() == list(range(200))


def test_without_a_size_all_images_must_agree(encode):
    data = [encode(size=(5, 4)), encode(size=(5, 4)), encode(size=(4, 5))]
    assert decode_all(data.__getitem__, ["a", "b"], ReadOptions(size=None)).shape == (2, 4, 5, 3)
    with pytest.raises(DataError, match=r"image c is 4x5 and a 5x4"):
        decode_all(data.__getitem__, ["a", "b", "c"], ReadOptions(size=None))


def test_one_bad_image_among_many_stops_reading_and_is_named(encode):
    data = [encode(size=(4, 4))] * 300
    data[170] = b"broken"
    with pytest.raises(DataError, match=r"image 170.png"):
        decode_all(data.__getitem__, [f"{i}.png" for i in range(300)], ReadOptions(size=4))


def test_sizes_and_fits_that_do_not_exist(encode):
    with pytest.raises(DataError, match="at least 1, got 0"):
        decode_all(lambda _: encode(), ["a"], ReadOptions(size=0))
    with pytest.raises(DataError, match="'crop' or 'squash', got 'stretch'"):
        decode_image(encode(), "a.png", size=5, fit="stretch")  # type: ignore[arg-type]
