"""A service of four colours for every test, on a catalogue of its own."""

import shutil
import threading
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from uploading import BASE, TOKEN

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions
from subspan.serve.app import create_app
from subspan.serve.settings import ServeSettings


@pytest.fixture(scope="session")
def backbone():
    return made.tiny_backbone()


@pytest.fixture(scope="session")
def first_version(tmp_path_factory, backbone) -> Path:
    path = tmp_path_factory.mktemp("catalogue") / "colours.subspan"
    photographs = {name: made.photographs(name, 40) for name in BASE}
    Catalogue.create(path, photographs, CatalogueOptions(), backbone=backbone)
    return path


@pytest.fixture
def colours(first_version: Path, tmp_path: Path, backbone) -> Catalogue:
    path = tmp_path / "colours.subspan"
    shutil.copytree(first_version, path)
    return Catalogue.open(path, backbone)


@pytest.fixture
def serve(colours: Catalogue):
    """Start a service with these settings; gives a client on the same machine."""
    clients = []

    def start(catalogue: Catalogue = colours, tokens=TOKEN, **settings) -> TestClient:
        settings = {"rate": 1e6, "burst": 10**6, "pixel_rate": 1e12, **settings}
        app = create_app(catalogue, ServeSettings(**settings), tokens)
        client = TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)
        clients.append(client)
        return client.__enter__()

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serve) -> TestClient:
    return serve()


@pytest.fixture
def held_session(colours: Catalogue, monkeypatch):
    """Sessions stop before they learn: (event set when one has come so far, event that lets all go on)."""
    came, go = threading.Event(), threading.Event()
    learn = colours._write

    def hold(*session):
        came.set()
        assert go.wait(20)
        return learn(*session)

    monkeypatch.setattr(colours, "_write", hold)
    yield came, go
    go.set()
