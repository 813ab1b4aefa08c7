"""The fields of the old data sets' dictionaries, each checked for its kind: an error names the field and its file."""

from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subspan.images.errors import DataError
from subspan.images.imageset import IntArray


def text(value: Any) -> str:
    """Text from text, bytes, or the latin1 text that bytes of Python 2 were read as."""
    if isinstance(value, str):
        try:
            value = value.encode("latin1")
        except UnicodeEncodeError:
            return value
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin1")


def raw_bytes(value: Any, where: str) -> bytes:
    """Bytes from bytes, text of Python 2, or whole numbers in 0..255 of any shape."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, str):
        with suppress(UnicodeEncodeError):
            return value.encode("latin1")
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


def as_dictionary(value: Any, where: str) -> dict[Any, Any]:
    """A dictionary as it is."""
    if not isinstance(value, dict):
        raise DataError(f"{where} must be a dictionary, got {type(value).__name__}")
    return value
