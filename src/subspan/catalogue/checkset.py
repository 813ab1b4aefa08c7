"""The check set: a few examples of every class, kept as features, on which every session is judged.

All of them are taught. Where the method can take examples back, base classes are judged by a model that was not
taught theirs. Otherwise, and of classes taught later, the classifier judges what it was taught: that shows what later
sessions take away, not how good a class is.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray

HALF = 1e-2, 6e4  # where the largest number must lie: half precision ends at 65504 and is coarse below 6e-5


@dataclass(frozen=True)
class CheckSet:
    """Kept examples."""

    features: FloatArray  # (m, d)
    names: tuple[str, ...]  # (m,)
    held_out: NDArray[np.bool_]  # (m,): never taught, as where a head was taken over or by earlier versions

    def __len__(self) -> int:
        return len(self.names)

    def labels(self, classes: Sequence[str]) -> NDArray[np.int64]:
        """The place of every example's class in ``classes``, (m,)."""
        place = {name: i for i, name in enumerate(classes)}
        return np.array([place[name] for name in self.names], np.int64)

    def select(self, chosen: NDArray[np.bool_]) -> "CheckSet":
        """Only the examples marked in ``chosen`` (m,)."""
        names = tuple(name for name, keep in zip(self.names, chosen, strict=True) if keep)
        return CheckSet(self.features[chosen], names, self.held_out[chosen])

    def of(self, names: Sequence[str]) -> NDArray[np.bool_]:
        """Which examples are of these classes, (m,)."""
        wanted = set(names)
        return np.array([name in wanted for name in self.names], bool)

    def renamed(self, old: str, new: str) -> "CheckSet":
        return CheckSet(self.features, tuple(new if name == old else name for name in self.names), self.held_out)

    def with_taught(self, features: FloatArray, names: Sequence[str], keep: int) -> "CheckSet":
        """The set with the first taught examples of each class, as long as it has fewer than ``keep``."""
        chosen = first_of_each(names, keep, Counter(self.names))
        return CheckSet(
            np.concatenate([self.features, features[chosen]]),
            (*self.names, *(names[i] for i in chosen)),
            np.concatenate([self.held_out, np.zeros(len(chosen), bool)]),
        )

    def to_arrays(self, classes: Sequence[str]) -> dict[str, NDArray]:
        """Arrays for a store, in half precision where the numbers allow it."""
        fits = HALF[0] < np.abs(self.features).max(initial=0) < HALF[1]
        return {
            "check_features": self.features.astype(np.float16) if fits else self.features,
            "check_labels": self.labels(classes),
            "check_held_out": self.held_out,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray], classes: Sequence[str]) -> "CheckSet":
        """The inverse of `to_arrays`."""
        names = tuple(str(classes[i]) for i in arrays["check_labels"].tolist())
        return cls(arrays["check_features"].astype(np.float32), names, arrays["check_held_out"])


def first_of_each(names: Sequence[str], keep: int, kept: Mapping[str, int] | None = None) -> list[int]:
    """Places of the first examples of every class that make ``keep`` of it, with those that are ``kept`` already."""
    count, chosen = Counter(kept), []
    for place, name in enumerate(names):
        if count[name] < keep:
            chosen.append(place)
            count[name] += 1
    return chosen


def chosen_to_keep(names: Sequence[str], keep: int, seed: int) -> NDArray[np.bool_]:
    """Which examples (n,) to keep: of every class a fifth, but at least one and at most ``keep``.

    Of a class with fewer than three examples none is: a model without it would know too little of the class.

    >>> chosen_to_keep(["ash"] * 10 + ["elm"] * 2, keep=10, seed=0).sum()
    np.int64(2)
    """
    chosen = np.zeros(len(names), bool)
    labels = np.asarray(names)
    for number, name in enumerate(sorted(set(names))):
        places = np.flatnonzero(labels == name)
        count = 0 if len(places) < 3 else min(keep, max(1, len(places) // 5))
        chosen[np.random.default_rng([seed, number]).permutation(places)[:count]] = True
    return chosen
