"""Arrays of two kinds, NumPy's and PyTorch's tensors: which one it is, what works on both, and from one to the other.

Nothing here imports PyTorch before there is a tensor to make: whoever holds one has imported it.
"""

import sys
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = Any  # a NumPy array or a tensor
Kind = Literal["numpy", "torch"]
FloatArray = NDArray[np.floating[Any]]


def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def kind_of(array: Array) -> Kind:
    return "torch" if is_tensor(array) else "numpy"


def functions_of(array: Array) -> Any:
    """The module whose functions take this array: numpy or torch. Both have those of the array API standard.

    >>> functions_of(np.ones(3)).concat([np.ones(1), np.zeros(1)])
    array([1., 0.])
    """
    return sys.modules["torch"] if is_tensor(array) else np


def as_numpy(array: Array, dtype: Any = None) -> NDArray[Any]:
    """The same numbers as a NumPy array, floating ones in a type or a higher one; memory is shared where it can be."""
    if is_tensor(array):
        array = array.detach().cpu()
        array = (array.float() if str(array.dtype) == "torch.bfloat16" else array).numpy()
    array = np.asarray(array)
    if dtype is None or array.dtype.kind != "f":
        return array
    return array.astype(np.promote_types(array.dtype, dtype), copy=False)


def as_tensor(array: Array, dtype: Any = None) -> Any:
    """The same numbers as a tensor, floating ones in a type if one is given; memory is shared where it can be."""
    import torch

    tensor = array if is_tensor(array) else torch.from_numpy(np.require(array, requirements=("C", "W")))
    return tensor if dtype is None or not tensor.is_floating_point() else tensor.to(dtype)


def append_one(features: Array) -> Array:
    """Features (..., d) with a constant 1 appended (..., d + 1), so that the last weight of a row is its bias."""
    functions, shape = functions_of(features), (*features.shape[:-1], 1)
    return functions.concat([features, functions.ones(shape, dtype=features.dtype, device=features.device)], axis=-1)


def unit(vectors: Array) -> Array:
    """Vectors (..., d) at length one; a zero vector stays zero.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    if is_tensor(vectors):
        return functions_of(vectors).nn.functional.normalize(vectors, dim=-1)
    return vectors / np.maximum(np.linalg.vector_norm(vectors, axis=-1, keepdims=True), 1e-12)
