"""Arrays and a text in a file: what goes in comes out, whole, in both forms."""

import numpy as np
import pytest

from subspan.array_files import SUFFIXES, check_suffix, read_arrays, read_text, write_arrays

ARRAYS = {
    "scalar": np.array(2.5, np.float32),
    "levels": np.arange(-6, 6, dtype=np.int8).reshape(3, 4),
    "half": np.linspace(0, 1, 5).astype(np.float16),
    "turned": np.arange(6.0).reshape(2, 3).T,  # not in C order
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_round_trip(tmp_path, suffix):
    path = tmp_path / f"arrays{suffix}"
    write_arrays(path, ARRAYS, "about", '{"a": "ä"}')
    arrays, text = read_arrays(path, "about", ValueError)
    assert text == read_text(path, "about", ValueError) == '{"a": "ä"}'
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
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


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("read", [read_arrays, read_text])
def test_what_cannot_be_read_is_the_error_of_the_caller(tmp_path, suffix, read):
    class OwnError(ValueError):
        pass

    path = tmp_path / f"arrays{suffix}"
    write_arrays(path, ARRAYS, "about", "")
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(OwnError, match=f"arrays{suffix}' is "):
        read(path, "about", OwnError)
    with pytest.raises(OwnError, match=r"a thing is written as .safetensors or .npz; got 'x.txt'"):
        check_suffix("x.txt", "a thing", OwnError)
