"""Features of any number of photographs, one part after the other, in the memory of two parts."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from subspan.arrays import FloatArray
from subspan.images.imageset import DataError
from subspan.pretrained.backbone import Backbone, Image


@dataclass(frozen=True)
class Part:
    """Photographs that were looked at together; those in ``bad``, by place, have no features."""

    images: list[Image]
    features: FloatArray  # (n, d)
    bad: dict[int, DataError]


def looked_at(network: Backbone, images: list[Image]) -> Part:
    bad: dict[int, DataError] = {}
    return Part(images, network.features(images, bad=bad.__setitem__), bad)


def parts_of(images: Iterable[Image], size: int) -> Iterator[list[Image]]:
    """The photographs in lists of so many."""
    rest = iter(images)
    while part := list(islice(rest, size)):
        yield part


def looked_at_in_turn(network: Backbone, images: Iterable[Image]) -> Iterator[Part]:
    """All photographs in their order; while the network sees one part the next is decoded."""
    with ThreadPoolExecutor(2) as pool:
        waiting = deque()
        try:
            for part in parts_of(images, network.batch):
                waiting.append(pool.submit(looked_at, network, part))
                if len(waiting) > 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for job in waiting:
                job.cancel()
