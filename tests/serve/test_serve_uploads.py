"""What may be uploaded: images, so many, so large. Everything else is a 4xx with one sentence, and costs little."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from bad_uploads import BAD_UPLOADS, png
from PIL import Image
from uploading import BASE, WRITE, pictures, uploads

import made_photographs as made
from subspan.pretrained.backbone import prepare
from subspan.serve.settings import ServeSettings
from subspan.serve.uploads import webp_pixels


def is_one_sentence(answer) -> bool:
    content = answer.json()
    sentence = content["error"]
    return (
        set(content) == {"error"} and 0 < len(sentence) < 300 and "\n" not in sentence and "Traceback" not in sentence
    )


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("name", BAD_UPLOADS)
def test_a_bad_upload_is_refused_and_changes_nothing(client, colours, name: str):
    content, status = BAD_UPLOADS[name]
    before = colours.version
    good = made.encoded(made.photographs("pink", 1)[0])
    for route in ("/predict", "/classes"):
        answer = client.post(route, files=uploads(good, content), data={"name": "pink"}, headers=WRITE)
        assert answer.status_code == status, answer.text
        assert is_one_sentence(answer)
        assert "number 2" in answer.json()["error"]
    assert colours.version == before
    assert client.post("/predict", files=uploads(good)).status_code == 200


def test_what_a_file_calls_itself_does_not_matter(client):
    png = made.encoded(made.photographs("green", 1)[0])
    named = [("images", ("../../../etc/passwd\x00.html", io.BytesIO(png), "text/html"))]
    assert client.post("/predict", files=named).status_code == 200
    html = [("images", ("photo.png", io.BytesIO(b"<html>"), "image/png"))]
    assert client.post("/predict", files=html).status_code == 415


@pytest.mark.parametrize(
    ("settings", "upload", "status", "sentence"),
    [
        ({"max_images": 3}, lambda: pictures("red", 4), 413, "a request has at most 3 images; got 4"),
        ({"max_image_bytes": 500}, lambda: pictures("red", 1), 413, "image number 1 has more than 500 bytes"),
        ({"max_body_bytes": 3000}, lambda: pictures("red", 9), 413, "a request has at most 3000 bytes"),
        ({"max_pixels": 500}, lambda: pictures("red", 1), 413, "image number 1 has more than 500 pixels"),
        ({}, lambda: [("description", (None, "no file"))], 422, "images: field required"),
    ],
)
@pytest.mark.parametrize("route", ["/predict", "/classes"])
def test_limits(serve, colours, route, settings, upload, status, sentence):
    client = serve(**settings)
    answer = client.post(route, files=upload(), data={"name": "pink"}, headers=WRITE)
    assert (answer.status_code, answer.json()) == (status, {"error": sentence})
    assert [one.name for one in colours.classes()] == sorted(BASE)


def test_a_body_without_a_length_is_counted_while_it_arrives(serve):
    client = serve(max_body_bytes=100_000)
    sent = 0

    def endless():
        nonlocal sent
        yield b'--x\r\nContent-Disposition: form-data; name="images"; filename="a"\r\n\r\n'
        while True:
            sent += 10_000
            yield bytes(10_000)

    answer = client.post(
        "/predict", content=_bounded(endless()), headers={"content-type": "multipart/form-data; boundary=x"}
    )
    assert (answer.status_code, answer.json()) == (413, {"error": "a request has at most 100000 bytes"})


def _bounded(chunks):
    return (chunk for chunk, _ in zip(chunks, range(1000), strict=False))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "name: "),
        ("   ", "a class name is text that is not empty"),
        ("x" * 201, "name: string should have at most 200 characters"),
        ("white\u202ewolf", "at most 200 printable characters"),
        ("nul\x00byte", "at most 200 printable characters"),
    ],
)
def test_names_are_checked(client, colours, name: str, sentence: str):
    answer = client.post("/classes", data={"name": name}, files=pictures("pink", 2), headers=WRITE)
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]
    assert len(colours.classes()) == 4


def test_names_of_one_look_are_one_class(client, colours):
    for name in ("caf\u00e9", "cafe\u0301", " caf\u00e9\n"):
        assert client.post("/classes", data={"name": name}, files=pictures("pink", 2), headers=WRITE).status_code == 201
    assert [one.name for one in colours.classes()][4:] == ["caf\u00e9"]


def test_a_name_is_no_path(client, colours):
    before = {path for path in colours.path.parent.rglob("*") if "versions" not in path.parts}
    name = "../../escape/../etc/passwd"
    assert client.post("/classes", data={"name": name}, files=pictures("pink", 2), headers=WRITE).status_code == 201
    assert {path for path in colours.path.parent.rglob("*") if "versions" not in path.parts} == before


def test_the_header_of_a_webp_is_read_as_pillow_reads_it():
    image = Image.fromarray(np.zeros((33, 1000, 3), np.uint8))
    with_alpha = Image.fromarray(np.full((33, 1000, 4), 100, np.uint8))
    for kind, picture, options in (
        (b"VP8 ", image, {}),
        (b"VP8L", image, {"lossless": True}),
        (b"VP8X", with_alpha, {}),
    ):
        stream = io.BytesIO()
        picture.save(stream, "WEBP", **options)
        assert stream.getvalue()[12:16] == kind
        assert webp_pixels(stream.getvalue()) == 33_000
    assert webp_pixels(made.encoded(made.photographs("red", 1)[0])) == 0


def test_large_images_are_decoded_by_one_thread_and_small_ones_are_not_held_up(serve, monkeypatch):
    client = serve(workers=4)
    threads: dict[bool, set[int]] = {True: set(), False: set()}

    def decode(views, data, *arguments):
        threads[len(data) > 5_000].add(threading.get_ident())
        return prepare(views, data, *arguments)

    monkeypatch.setattr("subspan.serve.uploads.prepare", decode)
    side = 3_000
    large = png(side, side, (b"\0" + bytes(side)) * side)
    small = made.encoded(made.photographs("red", 1)[0])
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: client.post("/predict", files=uploads(small, large)), range(4)))
    assert [answer.status_code for answer in answers] == [200] * 4
    assert len(threads[True]) == 1
    assert not threads[True] & threads[False]


def test_settings_refuse_what_makes_no_sense():
    for name, value in (("port", 70_000), ("workers", -1), ("max_images", 0), ("rate", 0.0), ("max_pixels", 10**9)):
        with pytest.raises(ValueError, match=name):
            ServeSettings(**{name: value})
