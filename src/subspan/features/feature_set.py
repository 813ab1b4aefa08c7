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
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from subspan.files.arrays import Array, check_suffix, read_arrays, write_arrays

FORMAT = 3  # since 2 a covariance in float16 is its upper triangle; since 3 rows, means and memory are rounded too
HEADER = "subspan"
Precision = Literal["float32", "float16", "int8"]
REQUIRED = ("base_weight", "base_test", "novel_test", "novel_support")
OPTIONAL = ("base_bias", "base_mean", "base_memory", "base_covariance")
IN_HALF = ("base_weight", "base_mean", "base_covariance")  # float16 with scales, in int8 files too
LISTS = ("base_names", "novel_names", "base_wnids", "novel_wnids")
EMBEDDING = "embedding."
LABELS, SCALE = "_labels", ".scale"
ROUNDING = float(np.finfo(np.float16).eps)  # of the coarsest precision in which a covariance is stored


class FeatureFileError(ValueError):
    """A feature file cannot be read, or lacks what it must have; the message names the file and the rule."""


@dataclass(frozen=True)
class FeatureSet:
    """Features of one split. Test and support items are flat, with labels counted from 0 within base or novel."""

    base_weight: Array  # (C0, d)
    base_test: Array  # (N, d)
    base_test_labels: Array  # (N,)
    novel_test: Array  # (M, d)
    novel_test_labels: Array  # (M,)
    novel_support: Array  # (S, copies, d)
    novel_support_labels: Array  # (S,)
    base_bias: Array | None = None  # (C0,)
    base_mean: Array | None = None  # (C0, d)
    base_memory: Array | None = None  # (C0, d)
    base_covariance: Array | None = None  # (d, d); of unit features where the head is a cosine
    base_names: tuple[str, ...] | None = None
    novel_names: tuple[str, ...] | None = None
    base_wnids: tuple[str, ...] | None = None
    novel_wnids: tuple[str, ...] | None = None
    embeddings: Mapping[str, Array] = field(default_factory=dict)  # name -> (C0 + C1, e)
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
        given: dict[str, Any] = {}
        for name in REQUIRED + OPTIONAL:
            if name in arrays:
                given[name] = _numbers(arrays[name], f"the array '{name}' of {source}")
        for name, dims in (("base_test", 3), ("novel_test", 3), ("novel_support", 4)):
            if name + LABELS in arrays:
                given[name + LABELS] = np.asarray(arrays[name + LABELS]).astype(np.int64).reshape(-1)
                dims -= 1
            elif given[name].ndim == dims:
                count, items = given[name].shape[:2]
                given[name + LABELS] = np.repeat(np.arange(count), items)
                given[name] = given[name].reshape(count * items, *given[name].shape[2:])
                dims -= 1
            if given[name].ndim != dims:
                raise FeatureFileError(
                    f"'{name}' of {source} has shape {given[name].shape}, which the schema does not know"
                )
            if len(given[name]) != len(given[name + LABELS]):
                raise FeatureFileError(
                    f"'{name}' of {source} has {len(given[name])} items but {len(given[name + LABELS])} labels"
                )
            if given[name].size == 0:
                raise FeatureFileError(f"'{name}' of {source} is empty")
        if given["base_weight"].ndim != 2 or len(given["base_weight"]) < 2:
            raise FeatureFileError(
                f"'base_weight' of {source} must be (C0, d) with at least two base classes; it has shape "
                f"{given['base_weight'].shape}"
            )
        base_count, width = given["base_weight"].shape
        for name in REQUIRED + OPTIONAL:
            if name in given and name != "base_bias" and given[name].shape[-1:] != (width,):
                raise FeatureFileError(
                    f"'{name}' of {source} has width {given[name].shape[-1]}, base_weight has {width}; they must agree"
                )
        for name, shape in (
            ("base_bias", (base_count,)),
            ("base_mean", (base_count, width)),
            ("base_memory", (base_count, width)),
            ("base_covariance", (width, width)),
        ):
            if name in given and given[name].shape != shape:
                raise FeatureFileError(f"'{name}' of {source} must have shape {shape}; it has {given[name].shape}")
        if "base_covariance" in given:
            _check_covariance(given["base_covariance"], source)
        novel_count = _check_labels(given, base_count, source)
        for name in LISTS:
            if arrays.get(name) is not None:
                given[name] = tuple(str(item) for item in arrays[name])
                wanted = base_count if name.startswith("base") else novel_count
                if len(given[name]) != wanted:
                    raise FeatureFileError(f"'{name}' of {source} has {len(given[name])} entries for {wanted} classes")
        given["embeddings"] = {
            key.removeprefix(EMBEDDING): _numbers(value, f"the array '{key}' of {source}")
            for key, value in arrays.items()
            if key.startswith(EMBEDDING)
        }
        for name, vectors in given["embeddings"].items():
            if vectors.ndim != 2 or len(vectors) != base_count + novel_count:
                raise FeatureFileError(
                    f"the embeddings '{name}' of {source} have shape {vectors.shape}; there are "
                    f"{base_count + novel_count} classes"
                )
        given["head"] = head = str(arrays.get("head", "linear"))
        given["head_scale"] = float(arrays.get("head_scale", 1.0))
        if head not in ("linear", "cosine") or not given["head_scale"] > 0:
            raise FeatureFileError(
                f"the head of {source} must be linear or cosine with a positive scale; it is '{head}' with "
                f"{given['head_scale']:g}"
            )
        meta = arrays.get("meta")
        return cls(**given, meta=dict(meta) if isinstance(meta, Mapping) else {})

    @classmethod
    def load(cls, path: str | Path) -> "FeatureSet":
        """Read a feature file, ``.safetensors`` or ``.npz``."""
        path = Path(path)
        if not path.exists():
            raise FeatureFileError(f"there is no feature file '{path}'")
        if path.is_dir():
            raise FeatureFileError(f"'{path}' is a folder, not a feature file")
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
        for name in REQUIRED + OPTIONAL:
            array = getattr(self, name)
            if array is None:
                continue
            if precision == "float32" or name == "base_bias":
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
            if name + LABELS in type(self).__dataclass_fields__:
                arrays[name + LABELS] = getattr(self, name + LABELS).astype(np.int32)
        for name, vectors in self.embeddings.items():
            arrays[EMBEDDING + name] = np.asarray(vectors, np.float32 if precision == "float32" else np.float16)
        return arrays

    def for_linear_scores(self) -> "FeatureSet":
        """The same features such that linear scores equal the trained head's: a cosine head becomes a linear one."""
        if self.head == "linear":
            return self
        names = ("base_test", "novel_test", "novel_support", "base_mean", "base_memory")
        given = {name: array for name in names if (array := getattr(self, name)) is not None}
        scaled = {name: _unit(array) * self.head_scale for name, array in given.items()}
        if self.base_covariance is not None:
            scaled["base_covariance"] = self.base_covariance * self.head_scale**2
        return replace(self, base_weight=_unit(self.base_weight), head="linear", head_scale=1.0, **scaled)


def load_features(path: str | Path | None = None) -> FeatureSet:
    """A feature file; without a path, the one that comes with the package.

    >>> load_features().base_weight.shape
    (60, 640)
    """
    return bundled() if path is None else FeatureSet.load(path)


def bundled() -> FeatureSet:
    """The features that come with the package: one random split of miniImageNet, from our own base session."""
    with resources.as_file(resources.files("subspan.features.bundle") / "mini-split1.safetensors") as path:
        return FeatureSet.load(path)


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


def _unit(array: Array) -> Array:
    return array / np.maximum(np.linalg.norm(array, axis=-1, keepdims=True), 1e-12)


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


def _check_covariance(covariance: Array, source: str) -> None:
    """Refuse what is no covariance (d, d), beyond what rounding does to one."""
    matrix = covariance.astype(np.float64)
    apart = np.abs(matrix - matrix.T).max()
    if apart > ROUNDING * np.abs(matrix).max():
        raise FeatureFileError(
            f"'base_covariance' of {source} must be symmetric; it differs from its transpose by up to {apart:g}"
        )
    values = np.linalg.eigvalsh(matrix)
    if values[0] < -ROUNDING * values[-1]:
        raise FeatureFileError(
            f"'base_covariance' of {source} must have no eigenvalue below 0; its smallest is {values[0]:g}"
        )


def _check_labels(given: Mapping[str, Array], base_count: int, source: str) -> int:
    """The number of novel classes; each of them has support, and all labels are of known classes."""
    support = given["novel_support_labels"]
    novel_count = int(support.max()) + 1
    for name, count in (("base_test", base_count), ("novel_support", novel_count), ("novel_test", novel_count)):
        labels = given[name + LABELS]
        if labels.min() < 0 or labels.max() >= count:
            raise FeatureFileError(
                f"'{name}{LABELS}' of {source} run from {labels.min()} to {labels.max()}; there are {count} classes, "
                "counted from 0"
            )
    missing = np.setdiff1d(np.arange(novel_count), support)
    if len(missing):
        raise FeatureFileError(f"'novel_support' of {source} has no image of novel class {missing[0]}")
    return novel_count
