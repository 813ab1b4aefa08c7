"""Fields of pickled dictionaries: what each kind takes, and one sentence for what is of another kind."""

import numpy as np
import pytest

from subspan.images.imageset import DataError
from subspan.images.safe_pickle import as_array, as_dictionary, as_labels, as_names, raw_bytes, text


def test_text_and_bytes_of_either_python():
    assert text("häuser") == "häuser"
    assert text("häuser".encode()) == "häuser"
    assert text("häuser".encode().decode("latin1")) == "häuser"
    assert text("日") == "日"
    for same in (
        "\x89PNG",
        b"\x89PNG",
        bytearray(b"\x89PNG"),
        np.array([[0x89], [80], [78], [71]]),
        [0x89, 80, 78, 71],
    ):
        assert raw_bytes(same, "image 1") == b"\x89PNG"


@pytest.mark.parametrize("value", [None, [1, 2, 300], np.array([-1]), [0.5], "\u65e5", ["a"]])
def test_other_things_are_no_bytes(value):
    with pytest.raises(DataError, match=r"image 1 must be bytes or whole numbers in 0\.\.255, got "):
        raw_bytes(value, "image 1")


def test_labels_are_whole_numbers():
    assert as_labels([2, 0], "labels").tolist() == [2, 0]
    assert as_labels(np.array([2, 0], np.uint8), "labels").tolist() == [2, 0]
    assert as_labels([], "labels").tolist() == []
    for value in (None, 3, "x", [0.5, 1], ["0", "1"], [0, None], [[0], [1]], [True]):
        with pytest.raises(DataError, match=r"labels must be whole numbers \(n,\), got "):
            as_labels(value, "labels")


def test_names_are_a_list_of_text():
    assert as_names(("a", b"b"), "names") == as_names(np.array(["a", "b"]), "names") == ["a", "b"]
    for value, kind in ((None, "NoneType"), (3, "int"), ("ab", "str"), (np.array("a"), "ndarray"), ({"a": 1}, "dict")):
        with pytest.raises(DataError, match=f"names must be a list of names, got {kind}$"):
            as_names(value, "names")
    with pytest.raises(DataError, match="names must be a list of names, got int as number 1"):
        as_names(["a", 3], "names")


def test_lists_of_different_lengths_and_other_things_than_dictionaries():
    with pytest.raises(DataError, match="data must be an array, got lists of different lengths"):
        as_array([[1], [2, 3]], "data")
    with pytest.raises(DataError, match="class_dict must be a dictionary, got list"):
        as_dictionary([1, 2], "class_dict")
