"""Named arrays and a text in one file: safetensors, which opens at once, or compressed npz, which is smaller."""

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, Literal
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from subspan.files import replacing

SUFFIXES = (".safetensors", ".npz")
LARGE = 2**20  # bytes of an array above which LZMA, which writes 3 MB/s, is for int8 alone; floats gain a few per cent

Array = NDArray[Any]
Way = tuple[Literal["C", "F"], int]  # the order in memory and the method of the zip in which an array is stored


def has_suffix(path: Path) -> bool:
    """Whether a file is named as those of this module are."""
    return path.suffix in SUFFIXES


def check_suffix(path: str | Path, what: str, error: type[ValueError]) -> Path:
    """The path of a file to write, which is ``what``; one that is named otherwise is refused."""
    path = Path(path)
    if not has_suffix(path):
        raise error(f"{what} is written as {' or '.join(SUFFIXES)}; got '{path}'")
    return path


def write_arrays(path: Path, arrays: Mapping[str, Array], key: str, text: str) -> None:
    """Write arrays with a text under a key, by the suffix; equal contents give equal bytes.

    In an npz every array is stored in that of its ways which takes least; numpy reads them all.
    """
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with replacing(path) as file:
        if path.suffix == ".npz":
            try:
                with ZipFile(file, "w") as archive:
                    for name, array in {**whole, key: np.asarray(text)}.items():
                        _add(archive, name, array, _smallest_way(array))
            except RuntimeError as cause:  # zipfile in a Python without lzma
                raise OSError(f"'{path}' cannot be written: {cause}") from cause
        else:
            save_file(whole, file, {key: text})


def read_arrays(path: Path, key: str, error: type[ValueError]) -> tuple[dict[str, Array], str | None]:
    """The arrays of a file and the text under a key, None where it has none; what goes wrong is such an error."""
    return _read(path, key, error, with_arrays=True)


def read_text(path: Path, key: str, error: type[ValueError]) -> str | None:
    """The text under a key alone."""
    return _read(path, key, error, with_arrays=False)[1]


def _read(path: Path, key: str, error: type[ValueError], *, with_arrays: bool) -> tuple[dict[str, Array], str | None]:
    kind = "npz" if path.suffix == ".npz" else "safetensors"
    try:
        if kind == "npz":
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files if name != key and with_arrays}
                for name, array in arrays.items():
                    if not isinstance(array, np.ndarray):  # numpy hands over the bytes of what is no array
                        raise ValueError(f"'{name}' in it is no array")
                    arrays[name] = np.asarray(array, order="C")
                return arrays, str(file[key]) if key in file.files else None
        with safe_open(path, framework="np") as file:
            names = file.keys() if with_arrays else ()
            return {name: file.get_tensor(name) for name in names}, (file.metadata() or {}).get(key)
    except (OSError, ValueError, EOFError, KeyError, SafetensorError) as cause:
        raise error(f"'{path}' is no readable {kind} file: {cause}") from cause
    except RuntimeError as cause:  # zipfile in a Python without lzma, or of an encrypted file
        raise error(f"'{path}' cannot be read: {cause}") from cause
    except Exception as cause:  # zipfile, zlib and lzma raise their own kinds
        raise error(f"'{path}' is damaged: {cause}") from cause


def _ways(array: Array) -> list[Way]:
    """The ways worth trying for an array in C order; in F order the values of one feature are neighbours."""
    ways: list[Way] = [("C", ZIP_DEFLATED)]
    if array.itemsize == 1 or array.nbytes <= LARGE:
        ways.append(("C", ZIP_LZMA))
        if not array.flags.f_contiguous:
            ways.append(("F", ZIP_LZMA))
    return ways


def _smallest_way(array: Array) -> Way:
    """Of its ways the one that takes least, found by trying; where there is but one, nothing is tried."""
    ways = _ways(array)
    return ways[0] if len(ways) == 1 else min(ways, key=lambda way: _stored_size(array, way))


def _stored_size(array: Array, way: Way) -> int:
    with ZipFile(BytesIO(), "w") as archive:
        return _add(archive, "", array, way)


def _add(archive: ZipFile, name: str, array: Array, way: Way) -> int:
    """Store an array as numpy does; the bytes it takes."""
    order, method = way
    entry = ZipInfo(f"{name}.npy")  # which dates it 1980
    entry.compress_type = method
    with archive.open(entry, "w", force_zip64=True) as stream:
        np.lib.format.write_array(stream, np.asarray(array, order=order), allow_pickle=False)
    return entry.compress_size
