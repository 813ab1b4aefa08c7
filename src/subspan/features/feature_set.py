"""The feature file: what a trained network says of a split, as arrays. Everything above this floor reads nothing else.

Arrays, rectangular or, for unequal counts per class, flat with a ``NAME_labels`` array beside them:

    base_weight    (C0, d)              rows of the head after session 0
    base_bias      (C0,)                optional
    base_mean      (C0, d)              class means of base training features
    base_test      (C0, t, d)           or (N, d) with base_test_labels
    novel_test     (C1, t, d)           or (N, d) with novel_test_labels
    novel_support  (C1, images, k, d)   k augmented copies of each image; or (N, k, d) with novel_support_labels
    base_memory    (C0, d)              one stored example per base class
    base_covariance (d, d)              pooled within-class covariance of base training features, optional; or its upper
                                        triangle, row by row
    base_names, novel_names, base_wnids, novel_wnids; embedding.NAME (C0 + C1, e), base classes first

As safetensors or compressed npz, with a JSON header under the key ``subspan``, in float32, float16, or int8 with one
scale per vector; an npz of others may do without the header. In float16 and int8 files rows and means are float16 with
one scale per vector too, and so is the covariance, its triangle being one vector. A cosine head is read as unit rows
and unit features times its scale, so that linear scores equal the trained ones; its base_covariance is that of the unit
features.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import unit
from subspan.files.arrays import Array, check_suffix, read_arrays, write_arrays

FORMAT = 3  # since 2 a covariance in float16 is its upper triangle; since 3 rows, means and memory are rounded too
HEADER = "subspan"
Precision = Literal["float32", "float16", "int8"]
REQUIRED = ("base_weight", "base_test", "novel_test", "novel_support")
ITEMS, LABELS = REQUIRED[1:], "_labels"  # arrays that have their labels beside them
LISTS = ("base_names", "novel_names", "base_wnids", "novel_wnids")
EMBEDDING, SCALE = "embedding.", ".scale"
IN_HALF = ("base_weight", "base_mean", "base_covariance")  # float16 with scales, in int8 files too
ROUNDING = float(np.finfo(np.float16).eps)  # of the coarsest precision in which a covariance is stored


class FeatureFileError(ValueError):
    """A feature file cannot be read, or lacks what it must have; the message names the file and the rule."""


@dataclass(frozen=True)
class FeatureSet:
    """Features of one split. Test and support items are flat, with labels counted from 0 within base or novel.

    Every array is written with its shape, in which a letter is one number everywhere: C0 base classes, C1 novel ones, C
    of both, d features.
    """

    base_weight: Annotated[Array, "C0 d"]
    base_test: Annotated[Array, "N d"]
    base_test_labels: Annotated[Array, "N"]
    novel_test: Annotated[Array, "M d"]
    novel_test_labels: Annotated[Array, "M"]
    novel_support: Annotated[Array, "S copies d"]
    novel_support_labels: Annotated[Array, "S"]
    base_bias: Annotated[Array | None, "C0"] = None
    base_mean: Annotated[Array | None, "C0 d"] = None
    base_memory: Annotated[Array | None, "C0 d"] = None
    base_covariance: Annotated[Array | None, "d d"] = None  # of unit features where the head is a cosine
    base_names: Annotated[tuple[str, ...] | None, "C0"] = None
    novel_names: Annotated[tuple[str, ...] | None, "C1"] = None
    base_wnids: Annotated[tuple[str, ...] | None, "C0"] = None
    novel_wnids: Annotated[tuple[str, ...] | None, "C1"] = None
    embeddings: Annotated[Mapping[str, Array], "C e"] = field(default_factory=dict)  # each
    head: Literal["linear", "cosine"] = "linear"
    head_scale: float = 1.0
    meta: Mapping[str, Any] = field(default_factory=dict)  # how it was made: split hash, recipe, commit

    @property
    def base_count(self) -> int:
        return len(self.base_weight)

    @property
    def novel_count(self) -> int:
        return int(self.novel_support_labels.max()) + 1

    @property
    def width(self) -> int:
        return self.base_weight.shape[1]

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of all classes, base first; wnids or numbers where there are no names."""
        for base, novel in ((self.base_names, self.novel_names), (self.base_wnids, self.novel_wnids)):
            if base is not None and novel is not None:
                return base + novel
        return tuple(f"class {i}" for i in range(self.base_count + self.novel_count))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], *, source: str = "the feature set") -> "FeatureSet":
        """From arrays named as in the schema, rectangular or flat; other keys (head, head_scale, meta) as they are."""
        for name in REQUIRED:
            if name not in arrays:
                raise FeatureFileError(f"{source} lacks the array '{name}'; the schema needs {', '.join(REQUIRED)}")
        wanted = [name for name in SHAPES if name in arrays and name not in LISTS]
        given: dict[str, Any] = {name: _numbers(arrays[name], f"'{name}' of {source}") for name in wanted}
        for name in ITEMS:
            array = given[name]
            if name + LABELS in given:
                given[name + LABELS] = given[name + LABELS].astype(np.int64).reshape(-1)
            elif array.ndim == len(SHAPES[name]) + 1:
                count, items = array.shape[:2]
                given[name] = array.reshape(count * items, *array.shape[2:])
                given[name + LABELS] = np.repeat(np.arange(count), items)
            else:
                raise FeatureFileError(f"'{name}' of {source} has shape {array.shape} and no '{name}{LABELS}'")
        sizes: dict[str, int] = {}
        for name in SHAPES:
            if name in given:
                _check_shape(given[name].shape, SHAPES[name], sizes, f"'{name}' of {source}")
        sizes["C1"] = int(given["novel_support_labels"].max()) + 1
        sizes["C"] = sizes["C0"] + sizes["C1"]
        _check_labels(given, sizes, source)
        lists: dict[str, Any] = {name: tuple(map(str, arrays[name])) for name in LISTS if arrays.get(name) is not None}
        for name, items in lists.items():
            _check_shape((len(items),), SHAPES[name], sizes, f"'{name}' of {source}")
        embeddings = {name.removeprefix(EMBEDDING): arrays[name] for name in arrays if name.startswith(EMBEDDING)}
        for name, vectors in embeddings.items():
            embeddings[name] = _numbers(vectors, f"the embeddings '{name}' of {source}")
            _check_shape(np.shape(vectors), SHAPES["embeddings"], dict(sizes), f"the embeddings '{name}' of {source}")
        if "base_covariance" in given:
            _check_covariance(given["base_covariance"], source)
        head, scale, meta = arrays.get("head", "linear"), float(arrays.get("head_scale", 1.0)), arrays.get("meta")
        if head not in ("linear", "cosine") or not scale > 0:
            raise FeatureFileError(
                f"the head of {source} must be linear or cosine with a positive scale; it is '{head}' with {scale:g}"
            )
        about = dict(meta) if isinstance(meta, Mapping) else {}
        return cls(**given | lists, embeddings=embeddings, head=head, head_scale=scale, meta=about)

    @classmethod
    def from_labelled(
        cls,
        X: Any,
        y: Any,
        base: Sequence[Any],
        *,
        test: tuple[Any, Any] | None = None,
        decay: float = 5e-4,
        seed: int = 0,
    ) -> "FeatureSet":
        """From features (n, d) of any network and their labels (n,): all that a benchmark asks for is computed.

        Features are divided by the number under ``unit`` in ``meta``, so that base features have the length that steps
        and penalties are made for. Memory is one example of each base class, drawn by ``seed``.

        Parameters
        ----------
        base : labels of the base classes; all other classes are novel, in sorted order.
        test : features and labels of test examples; without them every fifth example of each class, drawn by ``seed``.
        decay : weight decay of the logistic regression that gives base rows; it needs the extra ``research``.

        Examples
        --------
        >>> X = np.random.default_rng(0).standard_normal((40, 8)) + np.repeat(np.eye(8)[:4] * 9, 10, axis=0)
        >>> features = FeatureSet.from_labelled(X, np.repeat(["ash", "beech", "cedar", "elm"], 10), ["ash", "elm"])
        >>> features.class_names, features.base_test.shape, features.base_covariance.shape
        (('ash', 'elm', 'beech', 'cedar'), (4, 8), (8, 8))
        """
        from subspan.features.labelled import labelled_arrays

        return cls.from_arrays(labelled_arrays(X, y, base, test, decay, seed))

    @classmethod
    def load(cls, path: str | Path) -> "FeatureSet":
        """Read a feature file, ``.safetensors`` or ``.npz``."""
        path = Path(path)
        if not path.is_file():
            raise FeatureFileError(f"there is no feature file '{path}'")
        stored, header = read_arrays(path, HEADER, FeatureFileError)
        if header is None and path.suffix != ".npz":
            raise FeatureFileError(
                f"'{path}' is a safetensors file but no feature file: its header has no '{HEADER}' entry"
            )
        told = {} if header is None else _parse(header, path)
        try:
            arrays = _decode(stored, ours=header is not None)
        except (KeyError, ValueError, TypeError) as error:
            raise FeatureFileError(f"the arrays of '{path}' do not fit each other: {error!r}") from error
        return cls.from_arrays(arrays | told, source=f"'{path}'")

    def save(self, path: str | Path, precision: Precision = "float32") -> Path:
        """Write a feature file, ``.safetensors`` or, smaller, ``.npz``; int8 stores one scale per vector."""
        path = check_suffix(path, "a feature file", FeatureFileError)
        arrays = self._encode(precision)
        header = {"format": FORMAT, "head": self.head, "head_scale": self.head_scale, "meta": dict(self.meta)}
        header |= {name: getattr(self, name) for name in LISTS}
        write_arrays(path, arrays, HEADER, json.dumps(header))
        return path

    def _encode(self, precision: Precision) -> dict[str, Array]:
        """The arrays as they are stored; :func:`_decode` takes them back."""
        arrays: dict[str, Array] = {}
        for name, array in vars(self).items():
            if not isinstance(array, np.ndarray):
                continue
            if name.endswith(LABELS):
                arrays[name] = array.astype(np.int32)
            elif precision == "float32" or name == "base_bias":
                arrays[name] = np.asarray(array, np.float32)
            elif name in IN_HALF:
                kept = array[np.triu_indices(self.width)] if name == "base_covariance" else array
                divided, arrays[name + SCALE] = _by_scale(kept, 1)  # float16 ends at 65504 and is coarse near zero
                arrays[name] = divided.astype(np.float16)
            elif precision == "int8":
                arrays[name], arrays[name + SCALE] = quantise(array)
            else:
                if np.abs(array).max(initial=0) > np.finfo(np.float16).max:
                    raise FeatureFileError(f"float16 holds numbers up to 65504; '{name}' has {np.abs(array).max():g}")
                arrays[name] = np.asarray(array, np.float16)
        for name, vectors in self.embeddings.items():
            arrays[EMBEDDING + name] = np.asarray(vectors, np.float32 if precision == "float32" else np.float16)
        return arrays

    def for_linear_scores(self) -> "FeatureSet":
        """The same features such that linear scores equal the trained head's: a cosine head becomes a linear one."""
        if self.head == "linear":
            return self
        names = ("base_test", "novel_test", "novel_support", "base_mean", "base_memory")
        given = {name: array for name in names if (array := getattr(self, name)) is not None}
        scaled = {name: unit(array) * self.head_scale for name, array in given.items()}
        if self.base_covariance is not None:
            scaled["base_covariance"] = self.base_covariance * self.head_scale**2
        return replace(self, base_weight=unit(self.base_weight), head="linear", head_scale=1.0, **scaled)


# The sizes of each array and each list.
SHAPES: dict[str, list[str]] = {
    name: hint.__metadata__[0].split()
    for name, hint in get_type_hints(FeatureSet, include_extras=True).items()
    if get_origin(hint) is Annotated
}


def load_features(path: str | Path | None = None) -> FeatureSet:
    """A feature file; without a path, the one that comes with the package.

    >>> load_features().base_weight.shape
    (60, 640)
    """
    return bundled() if path is None else FeatureSet.load(path)


def bundled() -> FeatureSet:
    """The features that come with the package: one random split of miniImageNet, from our own base session."""
    return FeatureSet.load(bundle_file())


def bundle_file() -> Path:
    """The file of :func:`bundled`."""
    return Path(str(resources.files("subspan.features.bundle") / "mini-split1.safetensors"))


def quantise(array: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """An array (..., d) as int8 with one scale (...,) per vector.

    >>> quantise(np.array([[0.5, -1.27]]))
    (array([[  50, -127]], dtype=int8), array([0.01], dtype=float32))
    """
    divided, scale = _by_scale(array, 127)
    return np.round(divided).clip(-127, 127).astype(np.int8), scale  # a scale near zero is itself rounded


def _by_scale(array: Array, largest: int) -> tuple[Array, NDArray[np.float32]]:
    """An array (..., d) divided by one scale (...,) per vector, such that its largest entry becomes ``largest``."""
    array = np.asarray(array, np.float32)
    scale = np.asarray(np.abs(array).max(-1, initial=0) / largest, np.float32)
    return array / np.where(scale > 0, scale, 1)[..., None], scale


def _parse(text: str, path: Path) -> dict[str, Any]:
    """What a header says of the things that the schema knows."""
    try:
        header = json.loads(text)
        version = int(header["format"])
    except KeyError:
        raise FeatureFileError(f"'{path}' is no feature file: its 'subspan' header has no 'format'") from None
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise FeatureFileError(f"the header of '{path}' is damaged: {error!r}") from error
    if version > FORMAT:
        raise FeatureFileError(f"'{path}' has format {version}; this version of Subspan reads up to {FORMAT}")
    kinds = dict.fromkeys(LISTS, list) | {"head": str, "head_scale": (int, float), "meta": dict}
    told = {key: header[key] for key in kinds if header.get(key) is not None}
    for key, value in told.items():
        if not isinstance(value, kinds[key]):
            raise FeatureFileError(f"the header of '{path}' is damaged: '{key}' is {value!r}")
    return told


def _decode(arrays: dict[str, Any], *, ours: bool) -> dict[str, Any]:
    """Arrays as stored, in float16 or int8 with their scales, as float32; in files of ours no scale may be missing."""
    decoded = dict(arrays)
    for name, array in arrays.items():
        if ours and name + SCALE not in arrays and array.dtype == (np.float16 if name in IN_HALF else np.int8):
            raise ValueError(f"'{name}' is {array.dtype} and lacks '{name}{SCALE}'")
    for name in [name for name in arrays if name.endswith(SCALE)]:
        scale, target = decoded.pop(name), name.removesuffix(SCALE)
        if scale.size != 1 and scale.shape != arrays[target].shape[:-1]:
            raise ValueError(f"'{name}' has shape {scale.shape}, '{target}' {arrays[target].shape}")
        factor = scale.reshape(()) if scale.size == 1 else scale[..., None]  # one for all, or one per vector
        decoded[target] = arrays[target].astype(np.float32) * factor
    covariance = decoded.get("base_covariance")
    if covariance is not None and covariance.ndim == 1:
        decoded["base_covariance"] = _symmetric(covariance)
    return {name: a.astype(np.float32) if a.dtype == np.float16 else a for name, a in decoded.items()}


def _symmetric(triangle: Array) -> Array:
    """The matrix (d, d) of an upper triangle, row by row (d (d + 1) / 2,); whatever has another length stays."""
    width = (math.isqrt(8 * len(triangle) + 1) - 1) // 2
    if width * (width + 1) // 2 != len(triangle):
        return triangle
    whole = np.zeros((width, width), triangle.dtype)
    whole[np.triu_indices(width)] = triangle
    return whole + np.triu(whole, 1).T


def _numbers(values: Any, what: str) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise FeatureFileError(f"{what} must hold numbers; its dtype is {array.dtype}")
    if not np.isfinite(array).all():
        raise FeatureFileError(f"{what} holds NaN or infinity")
    return array


def _check_shape(shape: tuple[int, ...], letters: Sequence[str], sizes: dict[str, int], what: str) -> None:
    """Refuse a shape that is not of these sizes; a letter whose size is not known yet stands for any but 0."""
    wanted = ", ".join(str(sizes.get(letter, letter)) for letter in letters)
    if 0 in shape:
        raise FeatureFileError(f"{what} is empty: it has shape {shape}")
    pairs = zip(letters, shape, strict=False)
    if len(shape) != len(letters) or any(sizes.setdefault(letter, size) != size for letter, size in pairs):
        raise FeatureFileError(f"{what} must have shape ({wanted}); it has {shape}")


def _check_labels(given: Mapping[str, Array], sizes: Mapping[str, int], source: str) -> None:
    """All labels are of known classes, and each novel class has support."""
    if sizes["C0"] < 2:
        raise FeatureFileError(f"'base_weight' of {source} must have at least two base classes; it has one")
    for name in ITEMS:
        labels, count = given[name + LABELS], sizes["C0" if name == "base_test" else "C1"]
        if labels.min() < 0 or labels.max() >= count:
            raise FeatureFileError(
                f"'{name}{LABELS}' of {source} run from {labels.min()} to {labels.max()}; there are {count} classes, "
                "counted from 0"
            )
    missing = np.setdiff1d(np.arange(sizes["C1"]), given["novel_support_labels"])
    if len(missing):
        raise FeatureFileError(f"'novel_support' of {source} has no image of novel class {missing[0]}")


def _check_covariance(covariance: Array, source: str) -> None:
    """Refuse what is no covariance (d, d), beyond what rounding does to one."""
    matrix = covariance.astype(np.float64)
    apart, values = np.abs(matrix - matrix.T).max(), np.linalg.eigvalsh(matrix)
    if apart > ROUNDING * np.abs(matrix).max() or values[0] < -ROUNDING * values[-1]:
        raise FeatureFileError(
            f"'base_covariance' of {source} must be symmetric, with no eigenvalue below 0; it differs from its "
            f"transpose by up to {apart:g}, and its smallest eigenvalue is {values[0]:g}"
        )
