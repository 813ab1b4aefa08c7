"""A catalogue made again with another network is the one that this network would have made."""

from pathlib import Path

import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.options import CatalogueOptions
from subspan.catalogue.rebase import rebase

TINY = "module:made_photographs.with_preprocessing"
OTHER = f"{TINY},squash,tight-mirrored"


def test_the_same_sessions_are_taught_with_another_network(tmp_path: Path):
    of = {name: made.photographs(name, 10) for name in (*made.BASE, "pink", "brown", "grey")}
    path, options = tmp_path / "a.subspan", CatalogueOptions(backbone=TINY, seed=3)
    catalogue, _ = Catalogue.create(path, {name: of[name] for name in made.BASE}, options)
    catalogue.add("rose", of["pink"], "a pale red")
    catalogue.rename("rose", "pink")
    catalogue.add_all({"brown": of["brown"], "grey": of["grey"]})
    catalogue.remove("brown")
    known = {name: images for name, images in of.items() if name != "brown"}
    again, report = rebase(path, known, OTHER)
    assert report.classes == 4
    assert again.options == CatalogueOptions(backbone=OTHER, seed=3)
    assert [entry.classes for entry in again.sessions()] == [tuple(sorted(made.BASE)), ("pink",), ("grey",)]
    assert {entry.name: entry.description for entry in again.classes()}["pink"] == "a pale red"

    expected, _ = Catalogue.create(
        tmp_path / "b.subspan", {name: of[name] for name in made.BASE}, CatalogueOptions(backbone=OTHER, seed=3)
    )
    for name in ("pink", "grey"):
        expected.add(name, of[name])
    queries = made.photographs("pink", 6, seed=4)
    for one, other in zip(Catalogue.open(path, trust=True).predict(queries), expected.predict(queries), strict=True):
        assert {c.name: pytest.approx(c.probability) for c in one.candidates} == {
            c.name: c.probability for c in other.candidates
        }
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.subspan", "b.subspan"]
    with pytest.raises(CatalogueError, match="was replaced by a catalogue with another network"):
        catalogue.add("red", of["red"][:1])


@pytest.mark.parametrize(
    ("names", "message"), [(made.BASE[:3], "'yellow' has none"), ((*made.BASE, "pink"), "no class 'pink'")]
)
def test_photographs_of_other_classes_change_nothing(colours: Catalogue, names, message: str):
    with pytest.raises(CatalogueError, match=message):
        rebase(colours.path, {name: made.photographs(name, 3) for name in names}, TINY)
    assert Catalogue.open(colours.path).version == colours.version
