"""Named arrays and a text in one file: safetensors, which opens at once, or compressed npz, which is smaller."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from subspan.files.atomic import replacing

SUFFIXES = (".safetensors", ".npz")

Array = NDArray[Any]


def has_suffix(path: Path) -> bool:
    """Whether a file is named as those of this module are."""
    return path.suffix in SUFFIXES


def check_suffix(path: str | Path, what: str, error: type[ValueError]) -> Path:
    """The path of a file to write, which is ``what``; one that is named otherwise is refused."""
    path = Path(path)
    if not has_suffix(path):
        raise error(f"{what} is written as {' or '.join(SUFFIXES)}; got '{path}'")
    return path


def arrays_digest(arrays: Mapping[str, Array]) -> str:
    """SHA-256 over names, kinds and values of a network's tensors, but for counters: they have no effect in use."""
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        if not (name.endswith("num_batches_tracked") or ".clock." in f".{name}"):
            sha.update(f"{name} {tuple(array.shape)} torch.{array.dtype}".encode())
            sha.update(np.ascontiguousarray(array).data)
    return sha.hexdigest()


def write_arrays(path: Path, arrays: Mapping[str, Array], key: str, text: str) -> None:
    """Write arrays with a text under a key, by the suffix; equal contents give equal bytes."""
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with replacing(path) as file:
        if path.suffix == ".npz":
            with ZipFile(file, "w", ZIP_DEFLATED) as archive:  # as numpy's own function, which may write pickles
                for name, array in {**whole, key: np.asarray(text)}.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                        np.lib.format.write_array(stream, array, allow_pickle=False)
        else:
            save_file(whole, file, {key: text})


def read_text(path: Path, key: str, error: type[ValueError]) -> str | None:
    """The text under a key alone."""
    return read_arrays(path, key, error, with_arrays=False)[1]


def read_arrays(
    path: Path, key: str, error: type[ValueError], *, with_arrays: bool = True
) -> tuple[dict[str, Array], str | None]:
    """The arrays of a file and the text under a key, None where it has none; what goes wrong is such an error."""
    kind = "npz" if path.suffix == ".npz" else "safetensors"
    try:
        if kind == "safetensors":
            path.open("rb").close()  # safe_open calls every failure "not found"
            with safe_open(path, framework="np") as file:
                names = file.keys() if with_arrays else ()
                return {name: file.get_tensor(name) for name in names}, (file.metadata() or {}).get(key)
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files if name != key and with_arrays}
            for name, array in arrays.items():
                if not isinstance(array, np.ndarray):  # numpy hands over the bytes of what is no array
                    raise ValueError(f"'{name}' in it is no array")
                arrays[name] = np.asarray(array, order="C")
            return arrays, str(file[key]) if key in file.files else None
    except Exception as cause:  # zipfile, zlib, lzma and safetensors raise kinds of their own
        raise error(f"'{path}' is no readable {kind} file: {cause}") from cause
