"""What a write may hold: the body that its route declares, with the keys that it knows; all else changes nothing."""

import pytest
from uploading import WRITE, add, pictures

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.files.store import read
from subspan.serve.access import is_write

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b'{"version": "SEEN"}', FORM, 415),  # what `curl -d` sends
        (b'{"version": "SEEN"}', "text/plain", 415),
        (b'{"version": "SEEN"}', "application/merge-patch+json", 415),
        (b'{"version": "SEEN"}', None, 415),
        (b"version=SEEN", FORM, 415),
        (b"", FORM, 415),
        (b"", None, 415),
        (b'{"versoin": "SEEN"}', JSON, 422),
        (b'{"version": "LAST", "versoin": "SEEN"}', JSON, 422),
        (b'{"version": null}', JSON, 422),
        (b'{"version": ["SEEN"]}', JSON, 422),
        (b'["SEEN"]', JSON, 422),
        (b"{}", JSON, 422),
        (b"null", JSON, 422),
        (b"", JSON, 422),
        (b"{", JSON, 422),
    ],
)
def test_an_undo_that_is_not_understood_undoes_nothing(client, colours: Catalogue, content, kind, status):
    seen = colours.version
    last = add(client, "pink").json()["version"]  # by somebody else
    headers = WRITE if kind is None else {**WRITE, "Content-Type": kind}
    body = content.replace(b"SEEN", seen.encode()).replace(b"LAST", last.encode())
    refused = client.post("/undo", content=body, headers=headers)
    assert (refused.status_code, set(refused.json())) == (status, {"error"})
    assert read(colours.path).current == last


@pytest.mark.parametrize("route", ["/undo?version=SEEN", "/classes?description=pale", "/predict?top=1"])
def test_what_belongs_into_the_body_does_not_count_in_the_address(client, colours: Catalogue, route: str):
    last = add(client, "pink").json()["version"]
    files = None if route.startswith("/undo") else pictures("grey", 2)
    refused = client.post(route, data=files and {"name": "grey"}, files=files, headers=WRITE)
    assert (refused.status_code, refused.json()["error"].partition(": ")[2]) == (
        422,
        "this belongs into the body, not into the address",
    )
    assert read(colours.path).current == last


@pytest.mark.parametrize("route", ["/predict", "/classes"])
def test_a_form_with_an_unknown_key_is_refused(client, colours: Catalogue, route: str):
    before = colours.version
    said = {"name": "pink"} if route == "/classes" else {}
    refused = client.post(route, data={**said, "descripton": "pale"}, files=pictures("pink", 2), headers=WRITE)
    assert (refused.status_code, refused.json()) == (422, {"error": "descripton: extra inputs are not permitted"})
    second = [("image", file) for _, file in pictures("pink", 1)]
    refused = client.post(route, data=said, files=pictures("pink", 2) + second, headers=WRITE)
    assert (refused.status_code, refused.json()) == (422, {"error": "image: extra inputs are not permitted"})
    assert read(colours.path).current == before


@pytest.mark.parametrize("content", [{"json": {"name": "pink"}}, {"data": {"name": "pink"}}, {"content": b"pink"}])
def test_a_class_is_added_by_a_multipart_form_only(client, content):
    refused = client.post("/classes", **content, headers=WRITE)
    assert refused.status_code == 415
    assert "the body must be of content type multipart/form-data; got " in refused.json()["error"]


@pytest.mark.parametrize("reading", [1, 2])
def test_a_session_written_between_check_and_undo_is_not_undone(
    client, colours: Catalogue, backbone, monkeypatch, reading: int
):
    """Another process writes right after the undo has read the pointer for the first, for the second time."""
    mine = add(client, "pink").json()["version"]
    other = Catalogue.open(colours.path, backbone)
    features = other.backbone.features(made.photographs("grey", 3))
    readings = 0

    def read_and_write(path):
        nonlocal readings
        readings += 1
        pointer = read(path)
        if readings == reading:
            other.add_features("grey", features)
        return pointer

    monkeypatch.setattr("subspan.files.store.read", read_and_write)
    refused = client.post("/undo", json={"version": mine}, headers=WRITE)
    assert refused.status_code == 409
    assert refused.json() == {"error": "the last session is another one by now; look at the history again"}
    sessions = client.get("/sessions").json()["sessions"]
    assert [one["classes"] for one in sessions[1:]] == [["pink"], ["grey"]]
    assert Catalogue.open(colours.path, backbone).version == sessions[-1]["version"]


def test_no_write_was_forgotten(client):
    """Every request with a body, and every write, also ones to come: one kind of body, without unknown keys."""
    schema = client.get("/openapi.json").json()
    bodies = {
        f"{method.upper()} {path}": operation["requestBody"]["content"]
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
        if "requestBody" in operation or is_write(method.upper(), path)
    }
    assert {write: list(kinds) for write, kinds in bodies.items()} == {
        "POST /predict": ["multipart/form-data"],
        "POST /classes": ["multipart/form-data"],
        "POST /review": ["multipart/form-data"],
        **{f"POST /{path}": [JSON] for path in ("undo", "redo", "rename", "merge", "remove")},
    }
    for kinds in bodies.values():
        (content,) = kinds.values()
        model = content["schema"]["$ref"].rpartition("/")[2]
        assert schema["components"]["schemas"][model]["additionalProperties"] is False
