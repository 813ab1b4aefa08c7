"""Many rows: a few at a time, so that what is made on the way stays in the caches, and more of them without a copy."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from subspan.arrays import FloatArray

MANY = 10_000  # classes, of which what only answers need is single precision
ROWS = 2048  # of a block


def blocks(stop: int, start: int = 0) -> Iterator[slice]:
    """Slices that cover these rows.

    >>> list(blocks(3000))
    [slice(0, 2048, None), slice(2048, 3000, None)]
    """
    return (slice(at, min(at + ROWS, stop)) for at in range(start, stop, ROWS))


class _Buffer(np.ndarray):
    """Rows of which the first ``used`` belong to some array."""

    used: int
    turn = threading.Lock()


def with_room(rows: FloatArray, more: int) -> FloatArray:
    """Rows (n, d) and so many more, yet to be written, which share their memory where it goes on behind them.

    Arrays that never change may share it: the first that grows gets what lies behind, and any other a copy.
    """
    whole, count = _buffer_of(rows), len(rows)
    with _Buffer.turn:
        free = getattr(whole, "used", None) == count and count + more <= len(whole)
        if not (free and rows.flags.c_contiguous and rows.ctypes.data == whole.ctypes.data):
            # What nobody has written into takes no memory yet.
            whole = _Buffer((count + more + count // 4, *rows.shape[1:]), rows.dtype)
            whole[:count] = rows
        whole.used = count + more
    grown: Any = whole[: count + more]
    return grown.view(np.ndarray)


def _buffer_of(rows: Any) -> Any:
    """What an array lies in, if that may have room."""
    while isinstance(rows, np.ndarray) and not hasattr(rows, "used"):
        rows = rows.base
    return rows if isinstance(rows, _Buffer) else None
