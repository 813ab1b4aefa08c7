"""Arrays and labels as users pass them: numpy or tensors in, one clear sentence where they do not fit."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def to_numpy(values: Any) -> Any:
    """An array of a tensor; anything else as it is for scikit-learn to check, lists made arrays."""
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    return np.asarray(values) if isinstance(values, list | tuple) else values


def like(given: Any, values: Tensor) -> Any:
    return values.to(given.device) if isinstance(given, Tensor) else values.numpy()


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
