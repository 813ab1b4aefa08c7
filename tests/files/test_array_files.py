"""Arrays and a text in a file: what goes in comes out, whole, in both forms."""

import contextlib
import zipfile

import numpy as np
import pytest

from subspan.files.arrays import SUFFIXES, check_suffix, read_arrays, read_text, write_arrays

ARRAYS = {
    "scalar": np.array(2.5, np.float32),
    "levels": np.arange(-6, 6, dtype=np.int8).reshape(3, 4),
    "half": np.linspace(0, 1, 5).astype(np.float16),
    "turned": np.arange(6.0).reshape(2, 3).T,  # not in C order
    "empty": np.empty((0, 5), np.int8),
    "copies": np.arange(24, dtype=np.int8).reshape(2, 3, 4),
    "labels": np.repeat(np.arange(3, dtype=np.int32), 4),
}


def columns(*shape):
    """An int8 array whose features, the last axis, each have a level of their own; of few numbers, noisy."""
    rng = np.random.default_rng(0)
    levels = rng.integers(-60, 60, shape[-1])
    return (levels + rng.integers(0, 4, shape)).astype(np.int8)


class OwnError(ValueError):
    pass


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip(tmp_path, suffix):
    path = tmp_path / f"arrays{suffix}"
    write_arrays(path, ARRAYS, "about", '{"a": "ä"}')
    arrays, text = read_arrays(path, "about", ValueError)
    assert text == read_text(path, "about", ValueError) == '{"a": "ä"}'
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        assert arrays[name].flags.c_contiguous
        np.testing.assert_array_equal(arrays[name], array)
    assert read_text(path, "other", ValueError) is None


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_equal_contents_give_equal_bytes(tmp_path, suffix):
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    write_arrays(first, ARRAYS, "about", "")
    write_arrays(second, ARRAYS, "about", "")
    assert first.read_bytes() == second.read_bytes()


def test_npz_is_compressed(tmp_path):
    write_arrays(tmp_path / "zeros.npz", {"zeros": np.zeros(10_000)}, "about", "")
    assert (tmp_path / "zeros.npz").stat().st_size < 1000


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_of_numpy_is_read(tmp_path, save):
    save(tmp_path / "theirs.npz", **ARRAYS, about="text")
    arrays, text = read_arrays(tmp_path / "theirs.npz", "about", ValueError)
    assert text == "text"
    for name, array in ARRAYS.items():
        assert arrays[name].flags.c_contiguous
        np.testing.assert_array_equal(arrays[name], array, strict=True)


def test_no_pickle_is_written(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle=False"):
        write_arrays(tmp_path / "objects.npz", {"objects": np.array([{}])}, "about", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("read", [read_arrays, read_text])
def test_what_cannot_be_read_is_the_error_of_the_caller(tmp_path, suffix, read):
    path = tmp_path / f"arrays{suffix}"
    write_arrays(path, ARRAYS, "about", "")
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(OwnError, match=f"arrays{suffix}' is "):
        read(path, "about", OwnError)
    with pytest.raises(OwnError, match=r"a thing is written as .safetensors or .npz; got 'x.txt'"):
        check_suffix("x.txt", "a thing", OwnError)


@pytest.fixture
def by_lzma(tmp_path):
    """A file as versions before wrote it, its array column by column, the place of the LZMA stream, and the array."""
    array, path = columns(200, 16), tmp_path / "array.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        for name, values in (("array", np.asfortranarray(array)), ("about", np.asarray("text"))):
            with file.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, values)
        entry = file.getinfo("array.npy")
    start = path.read_bytes().index(b"array.npy") + len("array.npy") + 20  # a field of the zip of 20 bytes is between
    return path, range(start, start + entry.compress_size), array


def test_lzma_column_by_column_is_read(by_lzma):
    path, _, array = by_lzma
    arrays, text = read_arrays(path, "about", OwnError)
    assert text == "text"
    assert arrays["array"].flags.c_contiguous
    np.testing.assert_array_equal(arrays["array"], array, strict=True)


def test_damage_to_lzma_is_noticed(by_lzma):
    path, stream, array = by_lzma
    whole = path.read_bytes()

    def spoil(place):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])

    for place in stream[9:-10:7]:  # the last bytes only end the stream
        spoil(place)
        with pytest.raises(OwnError, match=r"array.npz' is no readable npz file: "):
            read_arrays(path, "about", OwnError)
    for place in stream[:9]:  # what the decoder is told: a version, which it ignores, how to read and how much to keep
        spoil(place)
        with contextlib.suppress(OwnError):
            np.testing.assert_array_equal(read_arrays(path, "about", OwnError)[0]["array"], array, strict=True)


def test_an_lzma_stream_cut_inside_a_whole_zip_is_noticed(by_lzma):
    path, stream, _ = by_lzma
    whole = path.read_bytes()
    for left in (0, 3, 9, len(stream) // 2, len(stream) - 20):
        spoilt = whole[: stream.start + left] + bytes(len(stream) - left) + whole[stream.stop :]
        path.write_bytes(spoilt)
        with pytest.raises(OwnError, match=r"array.npz' is no readable npz file: "):
            read_arrays(path, "about", OwnError)


def test_a_cut_npz_is_noticed(by_lzma):
    path, *_ = by_lzma
    whole = path.read_bytes()
    for length in range(0, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(OwnError, match=r"array.npz' is no readable npz file: "):
            read_arrays(path, "about", OwnError)


def test_a_python_without_lzma_says_so(by_lzma, monkeypatch):
    path, _, array = by_lzma
    monkeypatch.setattr(zipfile, "lzma", None)  # as zipfile has it where the import fails
    with pytest.raises(OwnError, match=r"array.npz' is no readable npz file: .*lzma module$"):
        read_arrays(path, "about", OwnError)
    new = path.with_name("new.npz")
    write_arrays(new, {"array": array}, "about", "")
    np.testing.assert_array_equal(read_arrays(new, "about", OwnError)[0]["array"], array)
