"""Arrays, labels and options as users pass them: one clear sentence where they do not fit."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike, NDArray

from subspan.arrays import as_numpy, as_tensor, is_tensor

if TYPE_CHECKING:
    from torch import Tensor


def to_numpy(values: Any) -> Any:
    """An array of a tensor; anything else as it is for scikit-learn to check, lists made arrays."""
    if is_tensor(values):
        return as_numpy(values)
    return np.asarray(values) if isinstance(values, list | tuple) else values


def plain_copy(array: ArrayLike) -> NDArray[Any]:
    """A copy of an array, however it lies in memory: reversed, read-only, in another byte order, longer."""
    array = np.asarray(array)
    native = array.dtype.newbyteorder("=") if array.dtype.itemsize <= 8 else np.float64
    return np.array(array, native, order="C")


def tensor_of(array: ArrayLike) -> "Tensor":
    """A copy of an array as a tensor."""
    return as_tensor(plain_copy(array))


def normalised(pixels: "Tensor", mean: tuple[float, ...], std: tuple[float, ...]) -> "Tensor":
    """uint8 (n, h, w, 3) to network inputs (n, 3, h, w), channels last in memory."""
    import torch

    means, stds = (pixels.new_tensor(values, dtype=torch.float32) for values in (mean, std))
    return ((pixels.to(torch.float32) * (1 / 255) - means) / stds).permute(0, 3, 1, 2)


def length(vectors: NDArray[Any]) -> float:
    """Root mean square length of vectors (n, d).

    >>> length(np.array([[3.0, 4.0], [5.0, 0.0]]))
    5.0
    """
    return float(np.einsum("nd,nd->", vectors, vectors, dtype=np.float64) / len(vectors)) ** 0.5


def like(given: Any, values: NDArray[Any]) -> Any:
    """Values as whoever gave this wants them: tensors for tensors."""
    return as_tensor(values).to(given.device) if is_tensor(given) else values


def finite(array: Any, name: str) -> NDArray[Any]:
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be numbers; got dtype {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; it holds NaN or infinity")
    return array


def plain_label(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def show(label: Any) -> str:
    return repr(plain_label(label))


def check_kind(label: Any, known: Any) -> None:
    """Labels of one model are all strings, all numbers or all truth values: an array must hold them unchanged."""
    kinds = [next(k for k in (str, bool, object) if isinstance(plain_label(item), k)) for item in (label, known)]
    if kinds[0] is not kinds[1]:
        raise ValueError(f"labels must be of one kind; the model's are like {show(known)}, got {show(label)}")


def option(default: Any, help: str) -> Any:
    """An option: a dataclass field with its default and the sentence that explains it."""
    return field(default=default, metadata={"help": help})


def converted(name: str, value: Any, hint: Any) -> Any:
    """A value, or its text as people write it, in the type of an option.

    >>> converted("cuts", "60,80", tuple[int, ...]), converted("flip", "true", bool)
    ((60, 80), True)
    >>> converted("k", "3", int | None), converted("k", "none", int | None)
    (3, None)
    >>> converted("basis", "lu", Literal["svd", "qr"])
    Traceback (most recent call last):
    ValueError: basis must be one of svd, qr; got 'lu'
    """
    kind, of = get_origin(hint), get_args(hint)
    if kind in (UnionType, Union):  # with None
        of_value = next(one for one in of if one is not NoneType)
        return None if value is None or value == "none" else converted(name, value, of_value)
    rules = {bool: "true or false", float: "a number", int: "a whole number", str: "text"}
    rules |= {Literal: f"one of {', '.join(map(str, of))}", tuple: "numbers with commas between them"}
    try:
        if kind is Literal:
            return {str(choice): choice for choice in of}[str(value)]
        if kind is tuple:
            parts = value.split(",") if isinstance(value, str) else value
            return tuple(of[0](part) for part in parts if str(part).strip())
        return {"true": True, "false": False}[value.lower()] if hint is bool and isinstance(value, str) else hint(value)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name} must be {rules.get(kind or hint, hint)}; got {value!r}") from None


def check_options(
    options: object,
    *,
    positive: Sequence[str] = (),
    not_negative: Sequence[str] = (),
    at_least: Mapping[int, Sequence[str]] | None = None,
    shares: Sequence[str] = (),
    below_one: Sequence[str] = (),
    error: type[ValueError] = ValueError,
) -> None:
    """Raise unless the options of these names lie where they must; NaN lies nowhere, a default None anywhere.

    >>> from fractions import Fraction
    >>> check_options(Fraction(-1, 2), positive=("denominator",), at_least={0: ("numerator",)})
    Traceback (most recent call last):
    ValueError: numerator must be at least 0; got -1
    """
    for names, rule, holds in (
        (positive, "be positive", lambda value: value > 0),
        (not_negative, "not be negative", lambda value: value >= 0),
        *((names, f"be at least {n}", lambda value, n=n: value >= n) for n, names in (at_least or {}).items()),
        (shares, "lie in [0, 1]", lambda value: 0 <= value <= 1),
        (below_one, "lie in [0, 1)", lambda value: 0 <= value < 1),
    ):
        for name in names:
            value = getattr(options, name)
            if value is None and getattr(type(options), name, 0) is None:
                continue
            if not holds(value):
                raise error(f"{name} must {rule}; got {value}")
