"""The trained part of a system in a file: tensors, and a header that says what they are and where they come from."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from subspan.features.feature_set import quantise
from subspan.files.arrays import check_suffix, has_suffix, read_arrays, read_text, write_arrays
from subspan.learners.training.features import Source

FORMAT = 2  # which has int8; files of format 1 are read
HEADER = "subspan-trained-part"
SCALE = ".scale"  # of the rows of a tensor in int8
_ROUNDED_TWICE = 2.0**-10  # of a number: both the rows at hand and those of training may have gone through float16


def _numbers(values: Any) -> tuple[float, ...]:
    return tuple(map(float, values))


# What the header says, and how it is read.
KEPT = {"system": str, "options": dict, "width": int, "signature": _numbers, "source": str, "about": dict}


class TrainedPartError(ValueError):
    """A trained part cannot be read, or is of another system or of other features; the message says which."""


@dataclass(frozen=True, eq=False)
class TrainedPart:
    """What training a system on the base classes has left."""

    system: str
    options: Mapping[str, Any]  # of the system, as it was trained
    tensors: Mapping[str, Tensor]
    width: int  # d
    signature: tuple[float, ...]  # (C0,): of the base rows it belongs to
    source: Source
    about: Mapping[str, Any] = field(default_factory=dict)  # settings, seed, steps, seconds, device, commit, date
    path: str = ""

    def save(self, path: str | Path, precision: Literal["int8", "float16"] = "float16") -> Path:
        """Write it, in half precision by default; in int8 every row of a matrix has a scale."""
        path = check_suffix(path, "a trained part", TrainedPartError)
        arrays = {}
        for name, tensor in self.tensors.items():
            array, most = tensor.detach().cpu().numpy(), float(tensor.abs().max())
            if not math.isfinite(most):
                raise TrainedPartError(f"the trained tensor '{name}' holds NaN or infinity; nothing was written")
            if precision == "int8" and array.ndim > 1:
                arrays[name], scale = quantise(array)
                arrays[name + SCALE] = scale[..., None]
            elif most > np.finfo(np.float16).max:
                raise TrainedPartError(f"float16 holds numbers up to 65504; '{name}' has {most:g}")
            else:
                arrays[name] = array.astype(np.float16)
        header = {"format": FORMAT, **{name: getattr(self, name) for name in KEPT}}
        write_arrays(path, arrays, HEADER, json.dumps(header))
        return path

    @classmethod
    def load(cls, path: str | Path) -> "TrainedPart":
        """Read what :meth:`save` wrote; a file that has not changed is read once."""
        return _read(str(path), *_last_change(Path(path)))

    def belongs_to(self, rows: Tensor) -> bool:
        """Whether these are the base rows (C0, d), or (C0, d + 1) with a bias, it was trained for."""
        if rows.shape[0] != len(self.signature) or rows.shape[1] not in (self.width, self.width + 1):
            return False
        rows = rows[:, : self.width].detach().cpu().double()
        apart = signature_of(rows) - torch.tensor(self.signature, dtype=torch.float64)
        return bool((apart.abs() <= _ROUNDED_TWICE * (rows.abs() @ _waves(self.width).abs())).all())

    def to(self, other: Tensor) -> dict[str, Tensor]:
        """Its tensors on another tensor's device, in its type."""
        return {name: tensor.to(other) for name, tensor in self.tensors.items()}


def signature_of(rows: Tensor) -> Tensor:
    """Numbers (C0,) by which rows (C0, d) are known again, whatever the rounding on the way: one product each.

    >>> signature_of(torch.eye(2)).round(decimals=4)
    tensor([ 0.5403, -0.4161], dtype=torch.float64)
    """
    return rows.detach().cpu().double() @ _waves(rows.shape[1])


def _waves(width: int) -> Tensor:
    return torch.cos(torch.arange(1, width + 1, dtype=torch.float64))


def find_part(
    place: str | Path,
    system: str,
    rows: Tensor,
    options: Mapping[str, Any],
    usual: Mapping[str, Any] | None = None,
) -> TrainedPart:
    """The part of a system that belongs to base rows (C0, d): a file, or the one in a folder.

    ``options`` are what the part must have been trained with; among several in a folder that do, those come first that
    share most of the ``usual`` ones.
    """
    place = Path(place)
    if not place.is_dir():
        part = TrainedPart.load(place)
        if misfit := _misfit(part, system, rows, options):
            raise TrainedPartError(f"'{place}' {misfit}")
        return part
    found = []
    for path in sorted(filter(has_suffix, place.iterdir())):
        header = _read_header(str(path), *_last_change(path))
        if header is not None and not _misfit(TrainedPart(**header, tensors={}), system, rows, options):
            found.append(TrainedPart.load(path))
    if not found:
        wanted = "".join(f", {name}={value}" for name, value in options.items())
        raise TrainedPartError(f"'{place}' has no trained part of system '{system}'{wanted} for these features")
    shared = [sum(part.options.get(key) == value for key, value in (usual or {}).items()) for part in found]
    found = [part for part, count in zip(found, shared, strict=True) if count == max(shared)]
    if len(found) > 1:
        names = " and ".join(f"'{Path(part.path).name}'" for part in found[:2])
        raise TrainedPartError(f"several trained parts in '{place}' fit, {names}; name the file")
    return found[0]


def _misfit(part: TrainedPart, system: str, rows: Tensor, options: Mapping[str, Any]) -> str:
    """Why a part is none of this system for these rows and options; nothing where it is."""
    if part.system != system:
        return f"is a trained part of system '{part.system}', not of '{system}'"
    if not part.belongs_to(rows):
        return (
            f"was trained for other features: its {len(part.signature)} base rows of width {part.width} are not these "
            f"{len(rows)} of width {rows.shape[1]}"
        )
    for name, value in options.items():
        if part.options.get(name) != value:
            return f"was trained with {name}={part.options.get(name)}, asked for is {name}={value}"
    return ""


def _parse(text: str, path: str | Path) -> dict[str, Any]:
    """What the header of a trained part says."""
    try:
        header = json.loads(text)
        if int(header["format"]) > FORMAT:
            raise TrainedPartError(f"'{path}' has format {header['format']}; this version of Subspan reads {FORMAT}")
        return {name: kind(header[name]) for name, kind in KEPT.items()}
    except TrainedPartError:
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise TrainedPartError(f"the header of '{path}' is damaged: {error!r}") from error


def _last_change(path: Path) -> tuple[int, int]:
    """When a file was last changed, in ns, and its size: by these it is known to be the one that was read."""
    try:
        facts = path.stat()
    except OSError:
        raise TrainedPartError(f"there is no trained part '{path}'") from None
    return facts.st_mtime_ns, facts.st_size


@lru_cache(maxsize=512)  # systems look for their part in a folder several times a session
def _read_header(path: str, modified: int, size: int) -> dict[str, Any] | None:
    text = read_text(Path(path), HEADER, TrainedPartError)
    return None if text is None else _parse(text, path)


@lru_cache(maxsize=8)
def _read(path: str, modified: int, size: int) -> TrainedPart:
    arrays, text = read_arrays(Path(path), HEADER, TrainedPartError)
    if text is None:
        raise TrainedPartError(f"'{path}' holds arrays but no trained part of a system")
    header = _parse(text, path)
    stored = {name: torch.from_numpy(array).float() for name, array in arrays.items()}
    scales = {name: stored.pop(name + SCALE) for name in list(stored) if name + SCALE in stored}
    tensors = {name: tensor * scales[name] if name in scales else tensor for name, tensor in stored.items()}
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise TrainedPartError(f"the tensor '{name}' of '{path}' holds NaN or infinity")
    return TrainedPart(**header, tensors=tensors, path=path)
