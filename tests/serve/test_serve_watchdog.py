"""A store that breaks and is mended at random: the service answers throughout, and takes up what comes after."""

import contextlib
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from uploading import pictures

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.files.store import POINTER, load_version, make_version, read, write
from waiting import wait_until

FAULTS = (TypeError, KeyError, RuntimeError, MemoryError, RecursionError, OSError, AssertionError, UnicodeError)


@contextlib.contextmanager
def moved(place: Path) -> Iterator[None]:
    gone = place.with_name("gone")
    place.rename(gone)
    yield
    gone.rename(place)


@contextlib.contextmanager
def overwritten(place: Path, content: bytes) -> Iterator[None]:
    before = place.read_bytes()
    place.write_bytes(content)
    yield
    place.write_bytes(before)


@contextlib.contextmanager
def foreign(path: Path) -> Iterator[None]:
    """The store points to a version whose metadata no reader can work with."""
    before = read(path)
    good = load_version(path, before.current)
    version = make_version(good.arrays, {**good.meta, "extra": {**good.meta["extra"], "catalogue": "one"}})
    write(path, [*before.chain, version], version.id)
    yield
    write(path, before.chain, before.current)


@contextlib.contextmanager
def failing(catalogue: Catalogue, fault: type[Exception]) -> Iterator[None]:
    def refresh() -> bool:
        raise fault("a fault of the test")

    catalogue.refresh = refresh
    yield
    del catalogue.refresh


@pytest.mark.slow
def test_the_service_outlives_a_minute_of_random_faults(serve, colours: Catalogue, backbone):
    client, path, chance = serve(refresh_seconds=0.02), colours.path, random.Random(0)
    other, pointer = Catalogue.open(path, backbone), path / POINTER
    features = other.backbone.features(made.photographs("pink", 5))
    end, rounds = time.monotonic() + 60, 0
    while time.monotonic() < end:
        rounds += 1
        kinds = [
            moved(path),
            moved(pointer),
            overwritten(pointer, pointer.read_bytes().replace(read(path).current.encode(), b"0" * 64)),
            overwritten(pointer, bytes(chance.randrange(256) for _ in range(chance.randrange(200)))),
            foreign(path),
            failing(colours, chance.choice(FAULTS)),
        ]
        with chance.choice(kinds):
            if chance.random() < 0.5:
                wait_until(lambda: client.get("/healthz").json()["status"] == "stale")
            assert client.post("/predict", files=pictures("red", 1)).status_code == 200
        other.refresh()
        if "pink" in [one.name for one in other.classes()]:
            other.undo()
        else:
            other.add_features("pink", features)
        wait_until(lambda: client.get("/healthz").json()["version"] == other.version)
        wait_until(lambda: client.get("/healthz").json()["status"] == "ok")
        assert [one.name for one in colours.classes()] == [one.name for one in other.classes()]
    assert rounds > 20
    assert colours.backbone is backbone
