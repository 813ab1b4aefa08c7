"""The one place where pickles are opened: numpy arrays and plain containers come in, anything else is refused by name.

The old data sets of this field exist only as pickles, and a pickle can call any function. This reader imports nothing:
it looks names up in a fixed table, and what it finds there can neither be altered by the file nor reach further. Arrays
are rebuilt from the public interface of numpy, so that files of Python 2 and 3, numpy 1 and 2 and every protocol read
alike.
"""

import collections
import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from subspan.images.imageset import DataError, IntArray


def load_pickle(path: Path) -> Any:
    """What a pickle holds, if these are arrays and plain containers. Strings of Python 2 come as latin1 text."""
    try:
        with path.open("rb") as file:
            return PlainUnpickler(file, encoding="latin1").load()
    except DataError as error:
        raise DataError(f"{path} was not read: {error}") from None
    except Exception as error:  # a damaged pickle may raise anything: EOFError, KeyError, MemoryError ...
        raise DataError(f"{path} is no whole pickle of arrays and plain containers: {error!r}") from error


# Fields of what was read, each checked for its kind: an error names ``where`` it stands.


def text(value: Any) -> str:
    """Text from text, bytes, or the latin1 text that bytes of Python 2 were read as."""
    if isinstance(value, str):
        with suppress(UnicodeEncodeError):
            value = value.encode("latin1")
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin1")


def raw_bytes(value: Any, where: str) -> bytes:
    """Bytes from bytes, text of Python 2, or whole numbers in 0..255 of any shape."""
    if isinstance(value, str):
        with suppress(UnicodeEncodeError):
            value = value.encode("latin1")
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    numbers = as_array(value, where)
    if numbers.dtype.kind not in "iu" or not np.array_equal(numbers, content := numbers.astype(np.uint8)):
        raise DataError(f"{where} must be bytes or whole numbers in 0..255, got {numbers.dtype} {numbers.shape}")
    return content.tobytes()


def as_array(value: Any, where: str) -> NDArray[Any]:
    """An array from an array or from lists of equal lengths."""
    try:
        return np.asarray(value)
    except ValueError:
        raise DataError(f"{where} must be an array, got lists of different lengths") from None


def as_labels(value: Any, where: str) -> IntArray:
    """Whole numbers (n,) from an array or a list."""
    array = as_array(value, where)
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iu"):
        raise DataError(f"{where} must be whole numbers (n,), got {array.dtype} {array.shape}")
    return array.astype(np.int64)


def as_names(value: Any, where: str) -> list[str]:
    """Text (n,) from a list or an array of text or bytes."""
    names = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(names, list | tuple):
        raise DataError(f"{where} must be a list of names, got {type(value).__name__}")
    for i, name in enumerate(names):
        if not isinstance(name, str | bytes):
            raise DataError(f"{where} must be a list of names, got {type(name).__name__} as number {i}")
    return [text(name) for name in names]


def as_dictionary(value: Any, where: str) -> dict[str, Any]:
    """A dictionary with text as keys, whether they were written as text or bytes."""
    if not isinstance(value, dict):
        raise DataError(f"{where} must be a dictionary, got {type(value).__name__}")
    return {text(key): item for key, item in value.items()}


class _Dtype:
    """A dtype on its way in: kind and size, then the byte order. Fields, subarrays and metadata are refused."""

    __slots__ = ("value",)

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.value: np.dtype[Any] = np.dtype(text(code))
        if self.value.kind not in "?biufcSUO" or self.value.fields or self.value.subdtype:
            raise DataError(f"arrays of numbers, text and objects are taken, got dtype {text(code)!r}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, order, subarray, names, fields, *_ = state
        if subarray or names or fields:
            raise DataError("arrays of numbers, text and objects are taken, got a structured dtype")
        code = self.value.str.lstrip("<>=|")
        self.value = np.dtype(text(order) + code)


class _Array(np.ndarray):
    """An array on its way in, which takes a :class:`_Dtype` in place of numpy's own."""

    __slots__ = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, shape, dtype, fortran, content = state
        super().__setstate__((version, shape, dtype.value, fortran, content))


def _reconstruct(subtype: type, shape: tuple[int, ...], _: object) -> np.ndarray:
    if subtype is not np.ndarray or shape != (0,):
        raise DataError(f"plain arrays are taken, got {subtype!r} of shape {shape}")
    return _Array((0,), dtype=np.uint8)


def _from_buffer(content: Any, dtype: _Dtype, shape: tuple[int, ...], order: str, axes: Any = None) -> np.ndarray:
    flat = np.frombuffer(content, dtype=dtype.value)
    if order == "K" and axes is not None:  # numpy 2.3 and later keep other layouts than C and Fortran so
        return flat.reshape(shape).transpose(axes)
    return flat.reshape(shape, order="F" if order == "F" else "C")


def _scalar(dtype: _Dtype, content: Any = b"") -> np.generic:
    return np.frombuffer(raw_bytes(content, "a number"), dtype=dtype.value)[0]


def _encode(value: str, encoding: str) -> bytes:
    if encoding != "latin1":
        raise DataError(f"text may be encoded as latin1 only, got {encoding!r}")
    return value.encode("latin1")


class Function:
    """A function that a pickle may call and cannot alter."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        object.__setattr__(self, "_call", call)

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setattr__(self, name: str, value: object) -> None:
        raise DataError(f"a pickle may not set {name}")


def _admitted() -> dict[tuple[str, str], Callable[..., Any]]:
    table: dict[tuple[str, str], Callable[..., Any]] = {
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): Function(_Dtype),
        ("collections", "OrderedDict"): collections.OrderedDict,
        ("collections", "defaultdict"): collections.defaultdict,
        ("_codecs", "encode"): Function(_encode),  # how protocols 0 to 2 of Python 3 write bytes
    }
    for core in ("numpy.core", "numpy._core"):  # numpy 1, numpy 2
        table[f"{core}.multiarray", "_reconstruct"] = Function(_reconstruct)
        table[f"{core}.multiarray", "scalar"] = Function(_scalar)
        table[f"{core}.numeric", "_frombuffer"] = Function(_from_buffer)
    for builtins in ("__builtin__", "builtins"):  # Python 2, Python 3
        for plain in (bool, bytearray, bytes, complex, dict, float, frozenset, int, list, set, str, tuple):
            table[builtins, plain.__name__] = plain
    return table


class PlainUnpickler(pickle.Unpickler):
    """Looks names up in a table of its own; nothing is imported."""

    admitted: ClassVar[Mapping[tuple[str, str], Any]] = _admitted()

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return self.admitted[module_name, global_name]
        except KeyError:
            raise DataError(
                f"it asks for {module_name}.{global_name}, and only arrays and plain containers are taken"
            ) from None

    def persistent_load(self, pid: Any) -> Any:
        raise DataError(f"it refers to an object outside of it ({pid!r})")
