"""Requests to the service of the tests."""

import io

import made_photographs as made

BASE = ("red", "green", "blue", "yellow")
TOKEN = "a-token-for-the-tests"
WRITE = {"Authorization": f"Bearer {TOKEN}"}


def uploads(*contents: bytes, kind: str = "image/png") -> list:
    """Files as a form sends them."""
    return [("images", (f"{i}.png", io.BytesIO(data), kind)) for i, data in enumerate(contents)]


def pictures(name: str, count: int, seed: int = 1) -> list:
    return uploads(*[made.encoded(pixels) for pixels in made.photographs(name, count, seed)])


def add(client, name: str, count: int = 5, colour: str = "pink", **data):
    return client.post("/classes", data={"name": name, **data}, files=pictures(colour, count), headers=WRITE)


def write(client, path: str, **body: str):
    """A change by JSON; undo and redo get the version of the last session, unless another is given."""
    if path in ("/undo", "/redo"):
        body = {"version": client.get("/sessions").json()["sessions"][-1]["version"], **body}
    return client.post(path, json=body, headers=WRITE)
