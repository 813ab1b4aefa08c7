"""What may be uploaded: images, so many, so large. Everything else is a 4xx with one sentence, and costs little."""

import io
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from bad_uploads import BAD_UPLOADS, png
from PIL import Image
from uploading import BASE, WRITE, pictures, uploads

import made_photographs as made
from subspan.serve.settings import ServeSettings


def is_one_sentence(answer) -> bool:
    content = answer.json()
    sentence = content["error"]
    return (
        set(content) == {"error"} and 0 < len(sentence) < 300 and "\n" not in sentence and "Traceback" not in sentence
    )


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("name", BAD_UPLOADS)
def test_a_bad_upload_costs_itself_alone(client, colours, name: str):
    content, status = BAD_UPLOADS[name]
    before, good = colours.version, made.encoded(made.photographs("pink", 1)[0])
    for route, data in (("/predict", {}), ("/classes", {"name": "pink"})):
        answer = client.post(route, files=uploads(content, content), data=data, headers=WRITE)
        assert answer.status_code == status, answer.text
        assert is_one_sentence(answer)
        assert "number 1 " in answer.json()["error"]
    answer = client.post("/predict", files=uploads(good, content, good)).json()["predictions"]
    assert [one["error"] is None for one in answer] == [True, False, True]
    assert answer[1]["error"].startswith("image number 2 ")
    assert answer[1]["name"] is None
    assert answer[0] == answer[2]
    assert answer[0]["candidates"]
    refused = client.post("/classes", files=uploads(good, content), data={"name": "pink"}, headers=WRITE)
    assert refused.status_code == status
    assert answer[1]["error"] in refused.json()["error"]
    assert colours.version == before
    data = {"name": "pink", "skip_bad": "true"}
    report = client.post("/classes", files=uploads(good, content), data=data, headers=WRITE).json()
    assert (report["examples"], report["skipped"]) == (1, [answer[1]["error"]])


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
    said = {"name": "pink"} if route == "/classes" else {}
    answer = client.post(route, files=upload(), data=said, headers=WRITE)
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


def test_text_in_another_encoding_is_refused(client, colours):
    for part in (b'name="name"\r\n\r\ncaf\xe9', b'name="description"\r\n\r\n\xff'):
        body = b"--x\r\nContent-Disposition: form-data; " + part + b"\r\n--x--\r\n"
        kind = {"content-type": "multipart/form-data; boundary=x"}
        refused = client.post("/classes", content=body, headers={**WRITE, **kind})
        assert refused.status_code == 400
        assert refused.json()["error"].endswith(": text must be UTF-8")
    assert len(colours.classes()) == 4


def test_the_pixels_of_a_request_and_of_a_client_are_counted(serve):
    """By the headers alone: ten million pixels in a hundred bytes, of which a JPEG counts an eighth."""
    stream = io.BytesIO()
    Image.new("L", (4000, 2500)).save(stream, "JPEG")
    empty, jpeg = png(4000, 2500), stream.getvalue()
    client = serve(max_request_pixels=25_000_000, pixel_rate=1e5)
    refused = client.post("/predict", files=uploads(empty, empty, empty))
    assert (refused.status_code, refused.json()) == (
        413,
        {"error": "a request has at most 25000000 pixels, of which a JPEG counts an eighth"},
    )
    assert client.post("/predict", files=uploads(empty, empty)).status_code == 422  # in the budget, but truncated
    assert client.post("/predict", files=uploads(*[jpeg] * 4)).status_code == 200  # 5 million
    for route, said in (("/predict", {}), ("/classes", {"name": "pink"})):
        refused = client.post(route, files=uploads(empty), data=said, headers=WRITE)
        assert refused.status_code == 429
        assert 90 <= int(refused.headers["retry-after"]) <= 100
    assert client.post("/predict", files=pictures("red", 1)).status_code == 200


def test_large_requests_wait_for_each_other_and_hold_up_no_small_one(serve, colours, monkeypatch):
    client = serve(workers=1)
    came, go, threads = threading.Event(), threading.Event(), set()
    features = colours.backbone.features

    def hold(images, **options):
        if len(images[0].read()) > 5_000:
            threads.add(threading.get_ident())
            came.set()
            assert go.wait(20)
        return features(images, **options)

    monkeypatch.setattr(colours.backbone, "features", hold)
    side = 3_000
    large = png(side, side, (b"\0" + bytes(side)) * side)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(client.post, "/predict", files=uploads(large)) for _ in range(2)]
        assert came.wait(20)
        assert client.post("/predict", files=pictures("red", 1)).status_code == 200
        assert not any(answer.done() for answer in answers)
        go.set()
    assert [answer.result().status_code for answer in answers] == [200, 200]
    assert len(threads) == 1


def test_settings_refuse_what_makes_no_sense():
    for name, value in (("port", 70_000), ("workers", -1), ("max_images", 0), ("rate", 0.0), ("max_pixels", 10**9)):
        with pytest.raises(ValueError, match=name):
            ServeSettings(**{name: value})
