"""The base session of a catalogue over the machines of a Ray cluster: photographs in shards, sums that add up.

Each task looks at one shard and returns the model of it, which holds sums and no example, and the features that the
check set keeps. Tasks have no side effects: Ray runs one again when its machine is lost. Plain tasks, and not Ray Data,
which needs pyarrow for what is a list of file names here.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from subspan.arrays import FloatArray
from subspan.catalogue.checkset import CheckSet, chosen_to_keep
from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.looking import Progress, features_of
from subspan.catalogue.streaming import Part, looked_at, parts_of
from subspan.extras import ray_cluster
from subspan.images.imageset import DataError
from subspan.model import Model
from subspan.pretrained.backbone import Backbone, Image
from subspan.pretrained.registry import load_backbone

SHARD = 1024  # photographs of a task; whole batches, so that each is seen beside the same others as in one process


@dataclass(frozen=True)
class Look:
    """What every task needs: the network by name and digest, the model to begin with."""

    backbone: str
    digest: str
    model: Model
    skip_bad: bool


Shard = tuple[list[Image], list[str], list[bool]]  # photographs, their classes, which are kept
Seen = tuple[Model | None, FloatArray, list[str], list[str]]


def taught_over_ray(
    photographs: Mapping[str, Sequence[Image]],
    network: Backbone,
    model: Model,
    keep: int,
    seed: int,
    skip_bad: bool,
    progress: Progress | None,
) -> tuple[Model, CheckSet, tuple[str, ...]]:
    """A model of all shards, the check set, and what was skipped."""
    images = [image for name in photographs for image in photographs[name]]
    names = [name for name in photographs for _ in photographs[name]]
    kept_too = chosen_to_keep(names, keep, seed).tolist()
    parts = [slice(start, start + SHARD) for start in range(0, len(images), SHARD)]
    shards = [(images[part], names[part], kept_too[part]) for part in parts]
    kept, kept_names, skipped, done = [], [], [], 0
    merged: list[tuple[int, Model]] = []  # of so many shards each, fewer and fewer
    look = Look(network.name, network.digest, model, skip_bad)
    for shard, (taught, features, of, bad) in zip(shards, over_ray(see, look, shards), strict=True):
        if taught is not None:
            _merge_in(merged, taught)
        kept.append(features)
        kept_names += of
        skipped += bad
        done += len(shard[0])
        if progress is not None:
            progress("looking at photographs", done, len(images))
    for _, taught in reversed(merged):
        model = taught if model is look.model else taught.merge(model)
    if empty := set(photographs).difference(getattr(model, "classes_", ())):
        raise CatalogueError(f"class '{min(empty)}' has no photograph that can be read")
    return model, CheckSet(np.concatenate(kept), tuple(kept_names), np.zeros(len(kept_names), bool)), tuple(skipped)


def _merge_in(merged: list[tuple[int, Model]], model: Model) -> None:
    """Merge models of equally many shards: each row is copied as often as such numbers double, not once a shard."""
    shards = 1
    while merged and merged[-1][0] == shards:
        model = merged.pop()[1].merge(model)
        shards *= 2
    merged.append((shards, model))


def see(look: Look, shard: Shard) -> Seen:
    """The model of one shard; features and classes of what is kept of it; and what was skipped."""
    images, names, kept = shard
    bad: dict[int, DataError] = {}
    network = _network(look.backbone, look.digest)
    features = features_of(network, images, None, bad.__setitem__ if look.skip_bad else None)
    good, labels = np.array([i not in bad for i in range(len(images))]), np.asarray(names)
    taught, chosen = look.model.partial_fit(features[good], labels[good]) if good.any() else None, good & kept
    return taught, features[chosen], labels[chosen].tolist(), [str(bad[i]) for i in sorted(bad)]


@cache
def _network(name: str, digest: str) -> Backbone:
    """The network, loaded once a process, which has one core."""
    network = load_backbone(name, digest)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    return network


def looked_at_over_ray(network: Backbone, images: Iterable[Image]) -> Iterator[Part]:
    """All photographs in their order, in parts."""
    return over_ray(_features, (network.name, network.digest), parts_of(images, SHARD))


def _features(network: tuple[str, str], images: list[Image]) -> Part:
    return looked_at(_network(*network), images)


def over_ray(look: Callable[[Any, Any], Any], shared: Any, shards: Iterable[Any]) -> Iterator[Any]:
    """What was seen of every shard, in order; so many wait as keep all machines at work."""
    with ray_cluster() as ray:
        task, shared = ray.remote(num_cpus=1, max_retries=-1)(look), ray.put(shared)
        most = 2 * int(ray.cluster_resources().get("CPU", 1))
        waiting: deque[Any] = deque()
        for shard in shards:
            try:
                waiting.append(task.remote(shared, shard))
            except TypeError as error:  # what lies in a zip cannot be sent
                raise CatalogueError(
                    "over Ray photographs are files that all machines see; unpack zips first"
                ) from error
            if len(waiting) > most:
                yield ray.get(waiting.popleft())
        while waiting:
            yield ray.get(waiting.popleft())
