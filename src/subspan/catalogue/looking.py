"""From photographs by class to features by class."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from subspan.arrays import FloatArray
from subspan.catalogue.errors import CatalogueError
from subspan.images.errors import DataError
from subspan.pretrained.backbone import Backbone, Image

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, how much there is


@dataclass(frozen=True)
class Batch:
    """Photographs that were looked at."""

    features: FloatArray  # (n, d)
    names: tuple[str, ...]  # (n,): their classes
    skipped: tuple[str, ...]


def look(
    backbone: Backbone, photographs: Mapping[str, Sequence[Image]], skip_bad: bool, progress: Progress | None
) -> Batch:
    """Features and classes of photographs; a class of which none can be read is refused."""
    images = [image for name in photographs for image in photographs[name]]
    names = [name for name in photographs for _ in photographs[name]]
    bad: dict[int, DataError] = {}
    features = features_of(backbone, images, progress, bad.__setitem__ if skip_bad else None)
    good = [i for i in range(len(images)) if i not in bad]
    empty = set(photographs).difference(names[i] for i in good)
    if empty:
        raise CatalogueError(f"class '{min(empty)}' has no photograph that can be read")
    return Batch(features[good], tuple(names[i] for i in good), tuple(str(bad[i]) for i in sorted(bad)))


def features_of(
    backbone: Backbone,
    images: Sequence[Image],
    progress: Progress | None,
    bad: Callable[[int, DataError], None] | None = None,
) -> FloatArray:
    """Features (n, d) of photographs, with progress."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress("looking at photographs", done, len(images))

    return backbone.features(images, advance=advance, bad=bad)
