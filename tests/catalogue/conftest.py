"""A catalogue of four colours for every test."""

from pathlib import Path

import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.options import CatalogueOptions


@pytest.fixture(scope="session")
def backbone():
    return made.tiny_backbone()


@pytest.fixture
def colours(tmp_path: Path, backbone) -> Catalogue:
    photographs = {name: made.photographs(name, 40) for name in made.BASE}
    return Catalogue.create(tmp_path / "colours.subspan", photographs, CatalogueOptions(), backbone=backbone)[0]
