"""From photographs by class to features by class."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from subspan.arrays import FloatArray
from subspan.catalogue.errors import CatalogueError
from subspan.images.classfiles import ImageFile
from subspan.images.imageset import DataError
from subspan.pretrained.backbone import Backbone, Image

Progress = Callable[[str, int, int], None]  # what is being done, how much of it is done, how much there is


@dataclass(frozen=True)
class Batch:
    """Photographs that were looked at."""

    features: FloatArray  # (n, d)
    names: tuple[str, ...]  # (n,): their classes
    skipped: tuple[str, ...]
    photographs: tuple[str, ...]  # (n,): what to call each
    places: tuple[int, ...]  # (n,): among the photographs of its class


def look(
    backbone: Backbone, photographs: Mapping[str, Sequence[Image]], skip_bad: bool, progress: Progress | None
) -> Batch:
    """Features and classes of photographs; a class of which none can be read is refused."""
    images = [image for name in photographs for image in photographs[name]]
    names = [name for name in photographs for _ in photographs[name]]
    bad: dict[int, DataError] = {}
    features = features_of(backbone, images, progress, bad.__setitem__)
    if bad and not skip_bad:
        named = "; ".join(str(bad[i]) for i in sorted(bad))
        raise DataError(
            f"{len(bad)} of {len(images)} photographs cannot be read; mend them, or leave them out with --skip-bad "
            f"(skip_bad=True): {named}"
        )
    good = [i for i in range(len(images)) if i not in bad]
    empty = set(photographs).difference(names[i] for i in good)
    if empty:
        raise CatalogueError(f"class '{min(empty)}' has no photograph that can be read")
    places = [place for name in photographs for place in range(len(photographs[name]))]
    called = [_called(image, name, place) for image, name, place in zip(images, names, places, strict=True)]
    good_names, good_called = (tuple(of[i] for i in good) for of in (names, called))
    return Batch(
        features[good],
        good_names,
        tuple(str(bad[i]) for i in sorted(bad)),
        good_called,
        tuple(places[i] for i in good),
    )


def _called(image: Image, name: str, place: int) -> str:
    """What to call a photograph: its file, or its place among those of its class."""
    if isinstance(image, ImageFile):
        return image.file
    return str(image) if isinstance(image, PurePath | str) else f"photograph {place + 1} of '{name}'"


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
