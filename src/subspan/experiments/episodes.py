"""Episodes of the single-session protocol: which classes, support images and queries each has; stored and replayed.

A stored file holds positions in the arrays of a feature file, so that two systems see the very same episodes.
"""

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.experiments.inputs import ProtocolError
from subspan.features.feature_set import FeatureSet
from subspan.files.arrays import read_arrays, write_arrays

FORMAT = 1
HEADER = "subspan-episodes"
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Episodes:
    """E episodes as positions in a feature set."""

    classes: IntArray  # (E, ways): novel classes, counted from 0
    support: IntArray  # (E, ways, shots): items of novel_support
    base_queries: IntArray  # (E, b): items of base_test
    novel_queries: IntArray  # (E, ways, q): items of novel_test
    seeds: IntArray  # (E,): of the start of the novel rows
    protocol: str  # hash of the protocol that drew them
    items: str  # hash of the feature set's items

    def __len__(self) -> int:
        return len(self.classes)

    def part(self, start: int, stop: int) -> "Episodes":
        """The episodes from ``start`` to before ``stop``."""
        return replace(self, **{name: getattr(self, name)[start:stop] for name in ARRAYS})

    def first_shots(self, shots: int) -> "Episodes":
        """The same episodes with only the first support images of each class: what drawing with so many shots gives."""
        most = self.support.shape[2]
        if shots > most:
            raise ProtocolError(f"the episodes have {most} shots, {shots} are asked for")
        protocol = self.protocol if shots == most else f"{self.protocol}, first {shots} of {most} shots"
        return replace(self, support=self.support[:, :, :shots], protocol=protocol)

    def save(self, path: str | Path) -> Path:
        """Write the episodes as safetensors."""
        path = Path(path)
        if path.suffix != ".safetensors":
            raise ProtocolError(f"episodes are written as .safetensors; got '{path}'")
        header = {"format": FORMAT, "protocol": self.protocol, "items": self.items}
        write_arrays(path, {name: getattr(self, name) for name in ARRAYS}, HEADER, json.dumps(header))
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Episodes":
        """Read episodes that were written by :meth:`save`."""
        arrays, text = read_arrays(Path(path), HEADER, ProtocolError)
        try:
            header = json.loads(text or "")
            if int(header["format"]) > FORMAT:
                raise ProtocolError(f"'{path}' has format {header['format']}; this version reads up to {FORMAT}")
            found = {name: arrays[name].astype(np.int64) for name in ARRAYS}
            return cls(**found, protocol=str(header["protocol"]), items=str(header["items"]))
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ProtocolError(f"'{path}' is no readable file of episodes: {error}") from error

    def check(self, features: FeatureSet) -> None:
        """Raise unless these episodes were drawn from a feature set with the same items."""
        if self.items != digest_of_items(features):
            raise ProtocolError(
                f"the episodes were drawn from other images (items {self.items}) than these features are of "
                f"(items {digest_of_items(features)})"
            )


ARRAYS = tuple(field.name for field in fields(Episodes) if field.name not in ("protocol", "items"))


def digest_of_items(features: FeatureSet) -> str:
    """A short hash of which images a feature set holds, whatever network and precision its numbers are of.

    It goes by the labels of the items, and by the split and its draws where the file tells them.
    """
    told = {key: features.meta.get(key) for key in ("split", "split_digest", "contents")}
    hashed = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode())
    for labels in (features.novel_support_labels, features.base_test_labels, features.novel_test_labels):
        hashed.update(f"{len(labels)}".encode() + np.ascontiguousarray(labels, dtype="<i8").tobytes())
    return hashed.hexdigest()[:12]
