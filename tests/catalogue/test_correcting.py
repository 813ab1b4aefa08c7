"""Putting right what was taught: names nearly alike, merging, taking back, undoing and redoing, prints of pictures."""

import math

import numpy as np
import pytest

import made_photographs as made
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError, CloseNameError
from subspan.catalogue.names import check_known, check_not_close, clean_name
from subspan.catalogue.prints import prints_of, same_pictures
from subspan.files import store


def names(catalogue: Catalogue) -> list[str]:
    return [one.name for one in catalogue.classes()]


# Names


@pytest.mark.parametrize(
    ("name", "known", "close"),
    [
        ("robbin", "robin", True),
        ("Robin", "robin", True),
        ("rboin", "robin", True),
        ("house_sparrow", "House Sparrow", True),
        ("r\u043ebin", "robin", True),  # with a Cyrillic o
        ("ro bin", "robin", True),
        ("Apple Red 1", "Apple Red 2", False),
        ("0", "1", False),
        ("cat", "bat", False),
        ("left hand", "right hand", False),
        ("great tit", "grey tit", False),
    ],
)
def test_names_that_are_nearly_alike(name: str, known: str, close: bool):
    if close:
        with pytest.raises(CloseNameError, match=f"beside '{known}'"):
            check_not_close(name, ["wren", known])
    else:
        check_not_close(name, ["wren", known])


@pytest.mark.parametrize("letter", ["\u200b", "\u034f", "\ufe0f", "\u3164", "\u202e", "\x1b", "\ud800"])
def test_letters_that_nobody_sees_are_refused(letter: str):
    with pytest.raises(CatalogueError, match="class name"):
        clean_name(f"ro{letter}bin")


def test_one_look_is_one_name():
    assert clean_name("ﬁnch  Ⅳ") == clean_name("finch IV")
    with pytest.raises(CatalogueError, match="'robinn' is not known; did you mean 'robin'"):
        check_known("robinn", ["wren", "robin"])
    with pytest.raises(CatalogueError, match=r"'zebra' is not known$"):
        check_known("zebra", ["wren", "robin"])


def test_a_close_name_is_a_new_class_only_when_said(colours: Catalogue):
    with pytest.raises(CloseNameError, match="class 'grene' would be new beside 'green'"):
        colours.add("grene", made.photographs("pink", 3))
    assert colours.add("Green", made.photographs("pink", 3), new=True).kind == "add_classes"
    with pytest.raises(CatalogueError, match="two classes would have the one name 'pink'"):
        colours.add_all({"pink": made.photographs("pink", 2), "\uff50ink": made.photographs("pink", 2)})
    with pytest.warns(UserWarning, match="'yelow' has nearly the name of 'yellow'"):
        colours.rename("Green", "yelow")


# Prints


def test_prints_know_a_picture_again_and_no_other(backbone):
    rng = np.random.default_rng(0)
    features = np.abs(rng.normal(size=(500, 1280))).astype(np.float32)
    again = (features * (1 + 1e-6 * rng.normal(size=features.shape))).astype(np.float32)
    assert [places.tolist() for places in same_pictures(prints_of(again), prints_of(features))] == [
        [place] for place in range(500)
    ]


# Merging and taking back


def test_merged_classes_are_one_with_the_photographs_of_both(colours: Catalogue):
    for name in ("pink", "grey"):
        colours.add(name, made.photographs(name, 6), author="Ada")
    entry = colours.merge("grey", "pink", author="Ben")
    assert (entry.kind, entry.classes, entry.author) == ("merge_classes", ("grey", "pink"), "Ben")
    assert names(colours) == [*sorted(made.BASE), "grey"]
    assert {one.name: one.examples for one in colours.classes()}["grey"] == 12
    found = colours.predict([*made.photographs("pink", 10, seed=9), *made.photographs("grey", 10, seed=9)])
    assert [one.name for one in found].count("grey") >= 17
    assert [one.author for one in Catalogue.open(colours.path).sessions()] == [None, "Ada", "Ada", "Ben"]
    colours.undo()
    assert names(colours) == [*sorted(made.BASE), "pink", "grey"]
    with pytest.raises(CatalogueError, match="'gray' is not known; did you mean 'grey'"):
        colours.merge("pink", "gray")


def test_photographs_are_taken_back_and_leave_nothing(colours: Catalogue, tmp_path, backbone):
    pink, red = made.photographs("pink", 5), made.photographs("red", 2, seed=7)
    colours.add("pink", pink)
    expected = colours.predict(made.photographs("grey", 8, seed=9), top=9)
    colours.add("pink", red)
    again = Catalogue.open(colours.path, backbone, trust=True)  # prints and check set from the disk
    assert again.unteach("pink", red).kind == "remove_examples"
    for one, other in zip(again.predict(made.photographs("grey", 8, seed=9), top=9), expected, strict=True):
        assert {c.name: c.probability for c in one.candidates} == pytest.approx(
            {c.name: c.probability for c in other.candidates}, abs=1e-5
        )
    assert {one.name: (one.examples, one.kept) for one in again.classes()}["pink"] == (5, 5)
    with pytest.raises(CatalogueError, match="photograph 1 of 'pink' was not taught as 'pink'"):
        again.unteach("pink", red)
    with pytest.raises(ValueError, match="at least one must be left"):
        again.unteach("pink", pink)
    with pytest.raises(CatalogueError, match="photograph 2 of 'pink' was not taught"):
        again.unteach("pink", [pink[0], pink[0]])


# Undo and redo


def test_no_undo_is_final_before_prune(colours: Catalogue, backbone):
    first = colours.version
    ids = {name: colours.add(name, made.photographs(name, 5)).version for name in ("pink", "grey")}
    before = colours.predict(made.photographs("grey", 3), top=6)
    assert colours.undo(to=first[:12]).classes == ("pink",)
    assert names(colours) == sorted(made.BASE)
    assert [entry.classes for entry in colours.undone()] == [("pink",), ("grey",)]
    other = Catalogue.open(colours.path, backbone, trust=True)
    assert other.redo().classes == ("pink",)
    assert other.redo(expected=other.version).classes == ("grey",)
    assert other.predict(made.photographs("grey", 3), top=6) == before
    assert other.undone() == []
    with pytest.raises(CatalogueError, match="nothing to redo"):
        other.redo()

    other.undo(to=first)
    other.add("brown", made.photographs("pink", 4))  # now pink and grey follow nothing that is in the chain
    with pytest.raises(CatalogueError, match="nothing to redo"):
        other.redo()
    with pytest.raises(CatalogueError, match="is no version that lies before"):
        other.undo(to=ids["pink"])
    assert other.redo(to=ids["grey"][:16]).classes == ("grey",)
    assert names(other) == [*sorted(made.BASE), "pink", "grey"]
    assert other.version == ids["grey"]

    with pytest.raises(store.StoreChangedError):
        other.redo(expected=first)
    other.undo()
    assert len(other.prune()) == 2  # grey, undone, and brown
    with pytest.raises(CatalogueError, match="nothing to redo"):
        other.redo()
    with pytest.raises(CatalogueError, match="is no version that was undone"):
        other.redo(to=ids["grey"])


def test_one_class_and_none_of_these(tmp_path, backbone):
    catalogue, report = Catalogue.create(
        tmp_path / "one.subspan", {"red": made.photographs("red", 110)}, backbone=backbone
    )
    assert report.classes == 1
    found = {n: catalogue.predict(made.photographs(n, 40, seed=9), reject=0.1) for n in ("red", "green", "blue")}
    assert [sum(one.rejected for one in found[name]) > 35 for name in found] == [False, True, True]
    assert {one.name for one in found["red"]} <= {"red", None}
    with pytest.raises(ValueError, match="a model needs at least 1 of the base session"):
        catalogue.remove("red")


def test_paths_may_be_text(colours: Catalogue, tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(made.encoded(made.photographs("red", 1, seed=9)[0]))
    assert colours.predict([str(file)])[0] == colours.predict([file])[0]
    assert math.isfinite(colours.predict([file])[0].familiarity)
    assert colours.add("rouge", [str(file)]).examples == 1
