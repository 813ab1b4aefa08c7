"""Finished results in a folder, bit for bit, so that what was stopped goes on: one file for each."""

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from subspan.experiments.records import Predictions, RecordError, Result, WeightSpace
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.files.arrays import read_arrays, write_arrays

HEADER = "subspan-result"
_KINDS = {kind.__name__: kind for kind in (MethodResult, EpisodeResult, WeightSpace, Predictions)}


def key_of(*parts: Any) -> str:
    """A name for all that a result depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def kept_or_run(
    folder: Path | None,
    keys: Sequence[str],
    run: Callable[[list[int], Callable[[int, Result], object]], object],
    without: Collection[str] = (),
) -> list[Result]:
    """The result of each key: what the folder has is read, the others are run and written as soon as they are done.

    ``run`` is given the numbers of those and what to call with the place in that list and the result of each. The
    fields ``without`` are not kept.
    """
    files = [None if folder is None else folder / f"{key}.safetensors" for key in keys]
    found = {i: read_result(file) for i, file in enumerate(files) if file is not None and file.exists()}
    waiting = [i for i in range(len(keys)) if i not in found]

    def record(place: int, result: Result) -> None:
        found[waiting[place]] = result
        if (file := files[waiting[place]]) is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_result(file, result, without)

    if waiting:
        run(waiting, record)
    return [found[i] for i in range(len(keys))]


def write_result(path: Path, result: Result, without: Collection[str] = ()) -> None:
    arrays: dict[str, Any] = {}
    header = json.dumps(_packed(result, arrays, {*without, "final_rows"}))  # which are large
    write_arrays(path, arrays, HEADER, header)


def read_result(path: Path) -> Result:
    arrays, header = read_arrays(path, HEADER, RecordError)
    try:
        return _unpacked(json.loads(header or ""), arrays)
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"'{path}' holds no result: {error!r}") from error


def _packed(value: Any, arrays: dict[str, Any], without: Collection[str]) -> Any:
    """The value for JSON; its arrays go into ``arrays``."""
    if isinstance(value, np.ndarray):
        name = f"{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if is_dataclass(value):
        own = {
            one.name: _packed(getattr(value, one.name), arrays, without)
            for one in fields(value)
            if one.name not in without
        }
        return {"kind": type(value).__name__, "fields": own}
    return {"tuple": [_packed(one, arrays, without) for one in value]} if isinstance(value, tuple) else value


def _unpacked(value: Any, arrays: dict[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    if "kind" in value:
        return _KINDS[value["kind"]](**{name: _unpacked(one, arrays) for name, one in value["fields"].items()})
    if "tuple" in value:
        return tuple(_unpacked(one, arrays) for one in value["tuple"])
    return arrays[value["array"]] if "array" in value else value
