"""What is left of every photograph that was taught: a print of 256 bits, by which the same picture is known again.

A bit says whether one feature is so many times another one, from half to twice. Of the same picture all are the same
but for rounding; of different ones more than `SAME` differ, nearly always so even of neighbours in a film of a turning
fruit. A picture cannot be made of its print.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray

BITS = 256
SAME = 2  # bits at most that prints of one picture differ by
CHUNK = 512  # prints in an array of a store: what is full does not change, so that versions share it


def prints_of(features: FloatArray) -> NDArray[np.uint8]:
    """The prints (n, BITS / 8) of features (n, d)."""
    width, pair = features.shape[1], np.arange(BITS)
    first = pair * 7919 % width
    second = (first + 1 + pair * 104729 % max(width - 1, 1)) % width
    factor = (2.0 ** ((pair * 37 % 9 - 4) / 4)).astype(np.float32)
    return np.packbits(features[:, first] > factor * features[:, second], axis=1)


def same_pictures(prints: NDArray[np.uint8], others: NDArray[np.uint8]) -> list[NDArray[np.int64]]:
    """For each of the prints (n, b) the places of the others (m, b) that are of the same picture."""
    return [np.flatnonzero(np.bitwise_count(others ^ one).sum(axis=1, dtype=np.int64) <= SAME) for one in prints]


@dataclass(frozen=True)
class Prints:
    """The prints of what was taught; none where a catalogue was made before prints were kept."""

    bits: NDArray[np.uint8]  # (n, BITS / 8)
    names: NDArray[np.str_]  # (n,): the class each was taught as

    @classmethod
    def of(cls, features: FloatArray, names: Sequence[str]) -> Self:
        return cls(prints_of(features), np.array(names, np.str_))

    @classmethod
    def none(cls) -> Self:
        return cls(np.zeros((0, BITS // 8), np.uint8), np.zeros(0, np.str_))

    def __len__(self) -> int:
        return len(self.names)

    def with_more(self, features: FloatArray, names: Sequence[str]) -> Self:
        more = self.of(features, names)
        return type(self)(np.concatenate([self.bits, more.bits]), np.concatenate([self.names, more.names]))

    def renamed(self, old: str, new: str) -> Self:
        return type(self)(self.bits, np.array([new if name == old else name for name in self.names], np.str_))

    def select(self, chosen: NDArray[np.bool_]) -> Self:
        return type(self)(self.bits[chosen], self.names[chosen])

    def places(self, features: FloatArray, name: str) -> list[int]:
        """Where photographs with these features (n, d) were taught as a class, each once; -1 where not."""
        found: list[int] = []
        for places in same_pictures(prints_of(features), self.bits):
            mine = [place for place in places.tolist() if self.names[place] == name and place not in found]
            found.append(mine[0] if mine else -1)
        return found

    def to_arrays(self, classes: Sequence[str]) -> dict[str, NDArray]:
        """Arrays for a store."""
        place = {name: i for i, name in enumerate(classes)}
        arrays = {f"prints_{i // CHUNK}": self.bits[i : i + CHUNK] for i in range(0, len(self), CHUNK)}
        return {**arrays, "print_labels": np.array([place[name] for name in self.names.tolist()], np.int32)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray], classes: Sequence[str]) -> Self:
        """The inverse of `to_arrays`."""
        labels = arrays.get("print_labels", np.zeros(0, np.int32))
        bits = [arrays[f"prints_{i // CHUNK}"] for i in range(0, len(labels), CHUNK)]
        names = np.array([classes[label] for label in labels.tolist()], np.str_)
        return cls(np.concatenate([cls.none().bits, *bits]), names)
