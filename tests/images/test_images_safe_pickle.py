"""The pickle reader: all that data files hold comes in, nothing else does, and damage is one clear error."""

import collections
import contextlib
import datetime
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subspan.images.imageset import DataError
from subspan.images.safe_pickle import as_dictionary, load_pickle


class Hostile:
    """Pickles as a call of any function with any arguments."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


@pytest.fixture
def load(tmp_path):
    def from_bytes(data: bytes):
        (tmp_path / "file.pkl").write_bytes(data)
        return load_pickle(tmp_path / "file.pkl")

    return from_bytes


ARRAYS = {
    "pixels": np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
    "big end first": np.arange(5, dtype=">i4"),
    "text": np.array(["ab", "ü"]),
    "bytes": np.array([b"abc"]),
    "objects": np.array([b"x", None, "y"], dtype=object),
    "truth": np.array([True, False]),
    "empty": np.zeros((0, 3), dtype=np.float16),
    "none": np.array(3),
}
PLAIN = {
    "containers": [(1, 2.5), {3}, frozenset({4}), {"k": None}, True, 1j, b"\xff\x00", bytearray(b"z"), "text"],
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "default": collections.defaultdict(list, {"n01": [0, 1]}),
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_plain_containers_come_in(load, protocol):
    arrays, plain = load(pickle.dumps((ARRAYS, PLAIN), protocol))
    assert plain == PLAIN
    assert plain["default"]["unseen"] == []
    for name, array in ARRAYS.items():
        assert np.array_equal(arrays[name], array), name
        assert arrays[name].dtype.newbyteorder("=") == array.dtype.newbyteorder("="), name
    scalar = load(pickle.dumps([np.float32(1.5), np.int64(-3)], protocol))
    assert scalar == [1.5, -3]
    assert scalar[0].dtype == np.float32


@pytest.mark.parametrize("core", [b"numpy.core", b"numpy._core"])
def test_files_of_python_2_and_either_numpy(load, core):
    # Protocol 2 as Python 2 wrote it: {'data': array([[7, 255]], uint8)} with bytes as plain strings.
    data = (
        b"\x80\x02}U\x04datac" + core + b".multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01K\x02\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x02\x07\xfftbs."
    )
    record = load(data)
    assert list(record) == ["data"]
    assert np.array_equal(record["data"], np.array([[7, 255]], dtype=np.uint8))


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (Hostile(eval, "1"), "eval"),
        (Hostile(exec, "1"), "exec"),
        (Hostile(getattr, "", "join"), "getattr"),
        (Hostile(np.load, "x"), "load"),
        (Hostile(np.fromfile, "/etc/passwd"), "fromfile"),
        (datetime.date(2020, 1, 1), "datetime.date"),
        (collections.Counter("a"), "collections.Counter"),
        (range(3), "range"),
        (np.ma.masked_array([1]), "numpy.ma"),
        (np.zeros(2, dtype=[("x", int)]), "dtype"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "M8"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_anything_else_is_refused_by_name(load, thing, name, protocol):
    with pytest.raises(DataError, match=name):
        load(pickle.dumps(thing, protocol))


def test_a_refused_call_is_never_made(load, tmp_path):
    victim = tmp_path / "victim"
    with pytest.raises(DataError, match=r"asks for .*open, and only arrays and plain containers"):
        load(pickle.dumps(Hostile(open, str(victim), "w")))
    assert not victim.exists()


def test_admitted_functions_cannot_be_altered(load):
    # BUILD with a slot state sets attributes; here: of the function behind numpy.dtype.
    with pytest.raises(DataError):
        load(b"\x80\x02cnumpy\ndtype\nN}U\x05_callcnumpy\nndarray\ns\x86b.")
    with pytest.raises(DataError, match="latin1 only, got 'rot13'"):
        load(b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.")
    assert load(pickle.dumps(np.arange(3), 2)).tolist() == [0, 1, 2]


def test_persistent_references_are_refused(load):
    with pytest.raises(DataError, match="outside of it"):
        load(b"\x80\x02U\x03refQ.")


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_every_truncation_is_one_clear_error(load, protocol):
    data = pickle.dumps({"data": np.arange(30, dtype=np.uint8), "labels": [1, 2]}, protocol)
    for end in range(len(data)):
        with pytest.raises(DataError, match=r"file\.pkl"):
            load(data[:end])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_bytes_give_an_error_or_plain_things(tmp_path_factory, data):
    good = bytearray(pickle.dumps({"data": np.arange(12, dtype=np.uint8).reshape(3, 4), "names": ["a", b"b"]}, 4))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.pkl"
    path.write_bytes(good)
    with contextlib.suppress(DataError):  # any other exception fails the test
        assert isinstance(load_pickle(path), dict | list | tuple | str | bytes | int | float | np.ndarray | None)


def test_keys_come_as_text_however_they_were_written(tmp_path):
    path = tmp_path / "d.pkl"
    path.write_bytes(pickle.dumps({b"data": 1, "labels": 2}))
    assert as_dictionary(load_pickle(path), "d") == {"data": 1, "labels": 2}
    path.write_bytes(pickle.dumps([1]))
    with pytest.raises(DataError, match=r"d\.pkl must be a dictionary, got list"):
        as_dictionary(load_pickle(path), "d.pkl")
