"""Several looks at one photograph, by one network or by several: their features as one."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

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
    """The mean of a network's features over its views, at length one; of several networks, side by side.

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
        self.dim = sum(network.dim for network, _ in parts)
        self.batch = min(network.batch for network, _ in parts)

    @property
    def views(self) -> tuple[Preprocessing, ...]:
        return tuple(view for _, views in self.parts for view in views)

    def forward(self, *views: Pixels) -> FloatArray:
        left, seen = iter(views), []
        for network, own in self.parts:
            features = sum(map(network.forward, islice(left, len(own))), np.float32(0))
            seen.append(features / np.maximum(np.linalg.vector_norm(features, axis=1, keepdims=True), 1e-12))
        return np.concatenate(seen, axis=1)
