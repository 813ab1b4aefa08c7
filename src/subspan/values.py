"""Arrays, labels and options as users pass them: one clear sentence where they do not fit."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

import numpy as np
from numpy.typing import ArrayLike, NDArray

from subspan.arrays import FloatArray, as_numpy, as_tensor, is_tensor

if TYPE_CHECKING:
    from torch import Tensor

    Features = ArrayLike | Tensor
    Labels = Sequence[Any] | NDArray[Any] | Tensor
    Embeddings = Mapping[Any, ArrayLike] | ArrayLike
else:
    Features = Labels = Embeddings = Any

# Root mean square length of base features in the paper's network (our bundled split), which its learning rate, weight
# decay and penalties are made for: what learns by these sees features in the unit that gives them this length.
FEATURE_LENGTH = 11.5


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


def copy_of(array: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """A copy in a type: what the caller does to his array later is none of the model's business."""
    try:
        with np.errstate(over="raise"):
            return plain_copy(array).astype(dtype, copy=False)
    except FloatingPointError:
        most, greatest = np.finfo(dtype).max, np.abs(array).max()
        raise ValueError(f"numbers must fit {dtype}, which ends at {most:.2g}; got {greatest:.2g}") from None


def examples_of(X: Features, y: Labels, width: int | None, kind: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features (n, d) and labels (n,); ``width`` is what a base session had, ``kind`` one of its labels."""
    features, labels = np.asarray(to_numpy(X)), np.asarray(to_numpy(y))
    if features.shape[:1] == (0,):
        raise ValueError("a session needs at least one example; got none")
    features = queries_of(features, width)
    if labels.shape != (len(features),):
        raise ValueError(f"y must hold one label for each of {len(features)} examples; got shape {labels.shape}")
    if labels.dtype.kind == "O":
        labels = np.array(labels.tolist())
    if kind is not None:
        check_kind(labels[0], kind)
    return finite(features, "X"), labels


def queries_of(X: Features, width: int | None) -> NDArray[Any]:
    """Features (n, d) as an array of this width, if there is one yet."""
    features = np.asarray(to_numpy(X))
    if features.ndim != 2 or (width is not None and features.shape[1] != width):
        rule = "(n, d)" if width is None else f"(n, {width}), as in the base session"
        raise ValueError(f"features must be {rule}; got {features.shape}")
    return features


def array_of(given: Any, name: str, shape: tuple[int, ...], rule: str, dtype: Any) -> NDArray[Any] | None:
    """An array that a user may give, of this shape."""
    if given is None:
        return None
    array = copy_of(finite(to_numpy(given), name), dtype)
    if array.shape != shape:
        raise ValueError(f"{name} must have {rule}; got {array.shape}")
    return array


def embeddings_of(
    given: Embeddings | None, names: tuple[Any, ...], known: FloatArray | None, needed_by: str | None, dtype: Any
) -> FloatArray | None:
    """Vectors (K, e) of these classes, checked against those the model has; ``needed_by`` names a method."""
    if given is None:
        if needed_by is not None:
            raise ValueError(f"method '{needed_by}' needs embeddings of the classes; pass embeddings={{label: vector}}")
        if known is None:
            return None
        raise ValueError("the model has embeddings of its classes; pass embeddings of the new ones too")
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing:
            raise ValueError(f"embeddings lack class {show(missing[0])}")
        single = [np.asarray(to_numpy(given[name]), np.float64) for name in names]
        widths = sorted({vector.size for vector in single})
        if len(widths) > 1:
            raise ValueError(f"embeddings must have one width; got {' and '.join(map(str, widths))}")
        vectors = np.stack(single)
    else:
        vectors = np.asarray(to_numpy(given), np.float64)
    if vectors.ndim != 2 or len(vectors) != len(names):
        raise ValueError(f"embeddings must be ({len(names)}, e), one for each class; got shape {vectors.shape}")
    if known is not None and vectors.shape[1] != known.shape[1]:
        raise ValueError(f"embeddings must have the base classes' width {known.shape[1]}; got {vectors.shape[1]}")
    return copy_of(finite(vectors, "embeddings"), dtype)


def memory_of(labels: NDArray[np.int64], groups: Any, count: int, seed: Sequence[int]) -> NDArray[np.int64]:
    """Places of ``count`` images of every class, with all their copies, drawn once; groups (n,) tell copies."""
    images = np.arange(len(labels)) if groups is None else np.unique(to_numpy(groups), return_inverse=True)[1]
    if len(images) != len(labels):
        raise ValueError(f"groups must hold one entry for each of {len(labels)} examples; got {len(images)}")
    rng = np.random.default_rng(list(seed))
    kept = [np.zeros(0, np.int64)]
    for label in np.unique(labels) if count else ():
        places = np.flatnonzero(labels == label)
        chosen = rng.permutation(np.unique(images[places]))[:count]
        kept.append(places[np.isin(images[places], chosen)])
    return np.concatenate(kept)


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
