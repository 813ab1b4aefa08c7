"""Several looks at one photograph, by one network or by several: their features as one."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.pretrained.backbone import Backbone, Pixels, Preprocessing

TIGHT = 320 / 224  # what the shorter side is scaled to before the middle is cut out, in sides of the middle
VIEWS: tuple[str, ...] = ("crop", "squash", "tight", "crop-mirrored", "squash-mirrored", "tight-mirrored")


def view_of(own: Preprocessing, name: str) -> Preprocessing:
    """A way to show a photograph to a network: the middle as it is used to, the whole made square, the middle closer.

    >>> view_of(Preprocessing(), "tight-mirrored").resize
    320
    """
    kind, _, mirrored = name.partition("-")
    size = own.size
    resize = {"crop": own.resize, "squash": size, "tight": round(size * TIGHT)}[kind]
    return replace(own, resize=resize, fit="squash" if kind == "squash" else "crop", mirrored=bool(mirrored))


class Eye(Backbone):
    """The mean of a network's features over its views, at length one; of several networks, their sum.

    Each network's features are added in another order, so that no two of its features always fall on the same two of
    another. That is nearly as good as features side by side, and as small as those of one network: what the default
    method keeps and computes grows with the square and the cube of their number.

    Parameters
    ----------
    parts : each a network and the names of its views.
    """

    def __init__(self, parts: Sequence[tuple[Backbone, Sequence[str]]], wanted: str | None = None) -> None:
        self.parts = [
            (network, [view_of(network.preprocessing, name) for name in names] or [network.preprocessing])
            for network, names in parts
        ]
        shown = [[view.to_dict() for view in views] for _, views in self.parts]
        digest = hashlib.sha256(json.dumps(shown, sort_keys=True).encode()).hexdigest()
        name = "+".join(",".join([network.name, *names]) for network, names in parts)
        super().__init__(name, "+".join([*(network.digest for network, _ in parts), digest]), wanted)
        self.dim = max(network.dim for network, _ in parts)
        self.batch = min(network.batch for network, _ in parts)

    @property
    def views(self) -> tuple[Preprocessing, ...]:
        return tuple(view for _, views in self.parts for view in views)

    @property
    def orders(self) -> list[NDArray[np.int64]]:
        """For each network, which of its features (padded with zeros to ``dim``) is added to each of the sum."""
        places = np.arange(self.dim)
        return [np.roll(places[:: -1 if number % 2 else 1], number) for number in range(len(self.parts))]

    def forward(self, *views: Pixels) -> FloatArray:
        left, sum_of_all = iter(views), np.zeros((len(views[0]), self.dim), np.float32)
        for (network, own), order in zip(self.parts, self.orders, strict=True):
            features = sum(map(network.forward, islice(left, len(own))), np.float32(0))
            features /= np.maximum(np.linalg.vector_norm(features, axis=1, keepdims=True), 1e-12)
            sum_of_all += np.pad(features, ((0, 0), (0, self.dim - network.dim)))[:, order]
        return sum_of_all
