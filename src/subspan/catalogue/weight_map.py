"""The rows of a catalogue's head on a plane, for people to look at."""

import numpy as np

from subspan.catalogue.records import MapPoint, WeightMap
from subspan.catalogue.snapshot import Snapshot

NEAREST = 3  # base classes marked for each newest class


def map_of(snapshot: Snapshot) -> WeightMap:
    """The rows on their two principal components; the newest classes and the base rows nearest to them marked."""
    rows = np.asarray(snapshot.classifier.rows_, np.float64)
    is_base = snapshot.classifier.is_base_
    along, lengths, _ = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    along *= np.sign(along[np.abs(along).argmax(0), np.arange(along.shape[1])])  # or each sign would be chance
    kept, points, shares = min(2, len(lengths)), np.zeros((len(rows), 2)), np.zeros(2)
    points[:, :kept] = (along * lengths)[:, :kept]
    shares[:kept] = (lengths**2 / max((lengths**2).sum(), np.finfo(float).tiny))[:kept]  # one class has no variance
    learned = [entry.classes for entry in snapshot.entries() if entry.kind == "add_classes"]
    newest = [name for name in snapshot.classes if learned and name in learned[-1]]
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(float).tiny)
    near: set[int] = set()
    for name in newest:
        cosines = np.where(is_base, unit @ unit[snapshot.classes.index(name)], -np.inf)
        near |= set(np.argsort(-cosines)[:NEAREST].tolist())
    return WeightMap(
        tuple(
            MapPoint(name, float(x), float(y), bool(base), name in newest, i in near)
            for i, (name, (x, y), base) in enumerate(zip(snapshot.classes, points, is_base, strict=True))
        ),
        (float(shares[0]), float(shares[1])),
    )
