"""The weights in a file that ``torch.save`` wrote before PyTorch 1.6, read without torch: the packaged networks' form.

Such a file is five pickles, and the numbers of its tensors behind them. The pickles are opened by
`subspan.images.safe_pickle`: plain tensors and containers come in, anything else is refused by name.
"""

import math
from pathlib import Path
from typing import IO, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from subspan.images.safe_pickle import Function, PlainUnpickler

MAGIC = 0x1950A86A20F9469CFC6C  # how such a file begins, before the version of the form
VERSION = 1001
STORAGES = {"Float": "<f4", "Double": "<f8", "Half": "<f2", "Long": "<i8", "Int": "<i4", "Short": "<i2", "Byte": "u1"}

Numbers = NDArray[Any]


def read_torch_file(path: Path) -> dict[str, Numbers]:
    """The tensors of a state dict by name."""
    try:
        with path.open("rb") as file:
            return _read(file, path.stat().st_size)
    except Exception as error:  # a damaged pickle may raise anything
        raise ValueError(f"'{path}' is no whole file of tensors as PyTorch wrote them before 1.6: {error}") from error


def _read(file: IO[bytes], size: int) -> dict[str, Numbers]:
    storages: dict[str, Numbers] = {}
    begin = [_Unpickler(file, storages, size).load() for _ in range(3)]  # the third tells of the machine
    if begin[:2] != [MAGIC, VERSION]:
        raise ValueError("it begins otherwise")
    state, keys = (_Unpickler(file, storages, size).load() for _ in range(2))
    if not isinstance(state, dict) or not all(isinstance(one, np.ndarray) for one in state.values()):
        raise ValueError("it must hold tensors by name")
    if sorted(keys) != sorted(storages):
        raise ValueError("its tensors and its numbers have different keys")
    for key in keys:
        numbers = storages[key].view(np.uint8)
        count = file.read(8)
        if count != len(storages[key]).to_bytes(8, "little") or file.readinto(numbers.data) != len(numbers):  # pyright: ignore[reportAttributeAccessIssue]
            raise ValueError(f"the numbers under '{key}' are not whole")
    return {str(name): np.array(tensor, order="C") for name, tensor in state.items()}


def _view(storage: Numbers, start: int, shape: tuple[int, ...], steps: tuple[int, ...], *_: object) -> Numbers:
    """A tensor among the numbers of its storage."""
    numbers = storage[start : start + math.prod(shape)]
    reach = 1 + sum((side - 1) * step for side, step in zip(shape, steps, strict=True))
    if min(start, *steps, 0) < 0 or reach > len(numbers):
        raise ValueError(f"a tensor of shape {shape} and steps {steps} reaches beyond its {len(numbers)} numbers")
    return np.lib.stride_tricks.as_strided(numbers, shape, [step * numbers.itemsize for step in steps])


class _Unpickler(PlainUnpickler):
    """Gives views of storages, which are filled when the pickles have been read."""

    admitted: ClassVar = {
        **PlainUnpickler.admitted,
        ("torch._utils", "_rebuild_tensor_v2"): Function(_view),
        **{("torch", f"{kind}Storage"): code for kind, code in STORAGES.items()},
    }

    def __init__(self, file: IO[bytes], storages: dict[str, Numbers], size: int) -> None:
        super().__init__(file)
        self._storages, self._size = storages, size

    def persistent_load(self, pid: Any) -> Any:
        _, code, key, _, count, part = pid
        if key not in self._storages:
            self._size -= np.dtype(code).itemsize * count  # no file holds more numbers than bytes
            if count < 0 or self._size < 0 or part is not None:
                raise ValueError(f"storage '{key}' cannot be in a file of this size")
            self._storages[key] = np.empty(count, code)
        return self._storages[key]
