"""Episodes of the single-session protocol: which classes, support images and queries each has; stored and replayed.

A stored file holds positions in the arrays of a feature file, so that two systems see the very same episodes.
"""

import hashlib
import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from subspan.experiments.inputs import ProtocolError
from subspan.features.feature_set import FeatureSet
from subspan.files.atomic import replacing

FORMAT = 1
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
        return replace(self, **{name: getattr(self, name)[start:stop] for name in _ARRAYS})

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
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}
        with replacing(path) as file:
            save_file(arrays, file, {"subspan-episodes": json.dumps(header)})
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Episodes":
        """Read episodes that were written by :meth:`save`."""
        try:
            with safe_open(path, framework="np") as file:
                header = json.loads((file.metadata() or {})["subspan-episodes"])
                if int(header["format"]) > FORMAT:
                    raise ProtocolError(f"'{path}' has format {header['format']}; this version reads up to {FORMAT}")
                arrays = {name: file.get_tensor(name).astype(np.int64) for name in _ARRAYS}
            return cls(**arrays, protocol=str(header["protocol"]), items=str(header["items"]))
        except (SafetensorError, OSError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ProtocolError(f"'{path}' is no readable file of episodes: {error}") from error

    def check(self, features: FeatureSet) -> None:
        """Raise unless these episodes were drawn from a feature set with the same items."""
        if self.items != digest_of_items(features):
            raise ProtocolError(
                f"the episodes were drawn from other images (items {self.items}) than these features are of "
                f"(items {digest_of_items(features)})"
            )


_ARRAYS = tuple(field.name for field in fields(Episodes) if field.name not in ("protocol", "items"))


def digest_of_items(features: FeatureSet) -> str:
    """A short hash of which images a feature set holds, whatever network and precision its numbers are of.

    It goes by the labels of the items, and by the split and its draws where the file tells them.
    """
    told = {key: features.meta.get(key) for key in ("split", "split_digest", "contents")}
    hashed = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode())
    for labels in (features.novel_support_labels, features.base_test_labels, features.novel_test_labels):
        hashed.update(f"{len(labels)}".encode() + np.ascontiguousarray(labels, dtype="<i8").tobytes())
    return hashed.hexdigest()[:12]


def draw_episodes(
    features: FeatureSet,
    count: int,
    *,
    ways: int,
    shots: int,
    base_queries: int,
    queries_per_class: int,
    seed: int,
    protocol: str,
) -> Episodes:
    """Draw episodes by seed: each by a generator of its own, so that the first are the same however many there are.

    Fewer shots are the first of more, and nothing else differs.
    """
    support_of = _by_class(features.novel_support_labels, features, shots, "support images", f"{shots} shots")
    queries_of = _by_class(
        features.novel_test_labels, features, queries_per_class, "test images", f"{queries_per_class} queries a class"
    )
    if ways > len(support_of):
        raise ProtocolError(f"{ways} ways asked for, but there are only {len(support_of)} novel classes")
    if base_queries > len(features.base_test):
        raise ProtocolError(
            f"{base_queries} base queries asked for, but there are only {len(features.base_test)} base test items"
        )
    drawn: dict[str, list] = {name: [] for name in _ARRAYS}
    for episode in range(count):
        rng = np.random.default_rng([seed, episode])
        classes = rng.permutation(len(support_of))[:ways]
        drawn["classes"].append(classes)
        drawn["base_queries"].append(rng.choice(len(features.base_test), base_queries, replace=False))
        drawn["novel_queries"].append([rng.permutation(queries_of[c])[:queries_per_class] for c in classes])
        drawn["seeds"].append(rng.integers(2**32))
        drawn["support"].append([rng.permutation(support_of[c])[:shots] for c in classes])
    arrays = {name: np.array(values, dtype=np.int64) for name, values in drawn.items()}
    return Episodes(**arrays, protocol=protocol, items=digest_of_items(features))


def _by_class(labels: IntArray, features: FeatureSet, least: int, what: str, wanted: str) -> list[IntArray]:
    """Positions of each novel class's items, at least so many."""
    places = [np.flatnonzero(labels == c) for c in range(features.novel_count)]
    for c, place in enumerate(places):
        if len(place) < least:
            name = features.class_names[features.base_count + c]
            raise ProtocolError(f"{wanted} asked for, but class '{name}' has only {len(place)} {what}")
    return places
