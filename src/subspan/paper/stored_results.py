"""Results that are kept because they cannot be run again from features: of systems that move the network.

One JSON file each: the accuracies of a protocol run as they were measured, and what made them (hash of the protocol,
split and its digest, seeds, commit, device, seconds, options). Tables show such a result marked as stored.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from subspan.experiments.inputs import ProtocolError
from subspan.experiments.metrics import forgetting_since_birth
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.files.atomic import replacing

FORMAT = 3
SUFFIX = ".json"
_KINDS: Mapping[str, type[MethodResult] | type[EpisodeResult]] = {
    "multi-session": MethodResult,
    "single-session": EpisodeResult,
}
# Large, or not needed again:
_LEFT_OUT = ("orders", "confusion", "weight_space", "final_rows", "predictions", "run")
_TEXTS = ("system", "split", "split_digest", "items")


@dataclass(frozen=True, eq=False)
class StoredResult:
    """A result of a system and what made it."""

    system: str  # its name; the result has it with its options
    result: MethodResult | EpisodeResult
    split: str  # as on the command line: "random:1"
    split_digest: str
    items: str  # hash of the images that supported and tested
    about: Mapping[str, Any] = field(default_factory=dict)  # seed, options, run, commit, device, seconds, date
    path: str = ""

    @property
    def protocol_name(self) -> str:
        """multi-session or single-session."""
        return next(name for name, kind in _KINDS.items() if isinstance(self.result, kind))

    @property
    def minutes(self) -> float:
        """Of the device that made it, all that came before the sessions or episodes, whose seconds the result has.

        A file that does not tell them apart counts as a whole.
        """
        return float(self.about.get("seconds_before_sessions", self.about.get("seconds", 0.0))) / 60

    @property
    def split_name(self) -> str:
        """As feature files are named after it: "random-1"."""
        return self.split.replace(":", "-")

    @property
    def recipe(self) -> str | None:
        """Of the base session that it started from; None where the file does not say."""
        base = self.about.get("base_session")
        return base.get("recipe") if isinstance(base, Mapping) else None

    def save(self, path: Path) -> Path:
        """Write it as JSON, in one step: one line for each entry."""
        kept = [f.name for f in fields(self.result) if f.name not in _LEFT_OUT]
        record = {
            "format": FORMAT,
            "protocol": self.protocol_name,
            **{name: getattr(self, name) for name in _TEXTS},
            "about": dict(self.about),
            "result": {name: _to_plain(getattr(self.result, name)) for name in kept},
        }
        lines = [f"{json.dumps(key)}: {_text(value)}" for key, value in record.items()]
        with replacing(path) as file:
            file.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
        return path

    @classmethod
    def load(cls, path: Path) -> "StoredResult":
        """Read what :meth:`save` wrote."""
        try:
            record = json.loads(path.read_text("utf-8"))
            if int(record["format"]) > FORMAT:
                raise ProtocolError(f"'{path}' has format {record['format']}; this version of Subspan reads {FORMAT}")
            kind = _KINDS[record["protocol"]]
            values = {name: _from_plain(name, value) for name, value in record["result"].items()}
            if record["format"] == 1 and kind is MethodResult:  # of sessions of one size, as all systems have
                unknown = np.full_like(values["base"], np.nan)
                values = {"accuracy": unknown, "class_mean": unknown, "novel_session_mean": values["novel"]} | values
            if "novel_at_birth" in values:  # before format 3 forgetting was told after the last session only
                ends = [values.pop(f"novel_at_{when}") for when in ("birth", "end")]
                pairs = ((values["base"][:, :1], ends[0]), (values["base"][:, -1:], ends[1]))
                values["forgetting"] = np.full_like(values["base"], np.nan)
                values["forgetting"][:, -1] = forgetting_since_birth(*(np.concatenate(pair, 1) for pair in pairs))
            texts = {name: str(record[name]) for name in _TEXTS}
            stored = cls(**texts, result=kind(**values), about=dict(record["about"]), path=str(path))
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ProtocolError(f"'{path}' is no readable stored result: {error!r}") from error
        for name, array in values.items():
            if isinstance(array, np.ndarray):
                stored._check(name, array)
        return stored

    def _check(self, name: str, array: np.ndarray) -> None:
        """Raise unless an array is as long as the others and accuracies are percentages."""
        bad = array[(array < 0) | (array > 100)]
        if len(bad) and name not in ("steps", "splits", "forgetting"):
            raise ProtocolError(f"'{self.path}' is damaged: '{name}' holds {bad[0]:g} %")
        if len(array) != (count := len(self.result.base)):
            raise ProtocolError(f"'{self.path}' is damaged: '{name}' has {len(array)} entries, 'base' {count}")


def stored_results(folder: Path, protocol: str, system: str, recipe: str) -> list[StoredResult]:
    """The results of a system in a folder, by file name: under a protocol of this hash, with networks of a recipe."""
    every = [StoredResult.load(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]
    return [o for o in every if (o.result.protocol, o.system, o.recipe) == (protocol, system, recipe)]


def _to_plain(value: Any) -> Any:
    """An array as lists, null where it has no number."""
    return np.where(np.isfinite(value), value, np.array(None)).tolist() if isinstance(value, np.ndarray) else value


def _from_plain(name: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    if name in ("class_counts", "notes"):
        return tuple(value)
    return np.array(value, dtype=np.int64 if name == "splits" else np.float64)  # None becomes NaN


def _text(value: Any) -> str:
    """JSON, an object with one line for each of its entries."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    inner = [f" {json.dumps(key)}: {json.dumps(entry, ensure_ascii=False)}" for key, entry in value.items()]
    return "{\n" + ",\n".join(inner) + "\n}"
