"""The fixed multi-session split of Tao et al. (TOPIC, CVPR 2020), used by nearly every later paper, image by image."""

from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from subspan.images.errors import DataError
from subspan.images.imageset import ImageSet, IntArray
from subspan.images.lists import find_beside, find_list, read_json
from subspan.images.splits.drawing import cut, generator, sorted_by_file
from subspan.images.splits.split import Split, SplitRecipe

LIST_NAMES = ("fscil-session-images.json.gz", "fscil-session-images.json")
PUBLISHED = resources.files("subspan.images.splits") / "published"  # the lists of the sets that this field reports on


@dataclass(frozen=True)
class FixedSessions(SplitRecipe):
    """Classes, training, support and test images as the lists say.

    A novel class's pool begins with the listed support images, in the order of the list, and goes on with those of its
    images that are neither listed nor test images, by file name. The lists have no validation images: ``validation``
    holds so many training images of each base class out, drawn by ``seed``, for choosing a recipe.
    """

    kind = "fixed"

    validation: int = 0  # images per base class taken from the listed training images
    lists: Path | str | None = None  # fscil-session-images.json.gz; None: found beside the images, or the package's

    @property
    def name(self) -> str:
        return self.kind

    def make(self, images: ImageSet) -> Split:
        path, record = self._list_of(images)
        try:
            order: list[str] = record["class_order"]
            sessions: list[list[str]] = [session["classes"] for session in record["sessions"]]
            pairs = [zip(session["classes"], session["train"], strict=True) for session in record["sessions"]]
            listed = {key: files for session in pairs for key, files in session}
            test_files = dict(zip(order, record["test"], strict=True))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path} must hold class_order, sessions and test: {error!r}") from error
        class_of = {key: images.class_index(key) for key in order}
        files = zip(images.labels.tolist(), images.files, strict=True)
        by_name = {(label, PurePosixPath(file).name): i for i, (label, file) in enumerate(files)}
        test = {key: _rows(images, by_name, key, test_files[key], path) for key in order}
        train = {key: _rows(images, by_name, key, listed[key], path) for key in order}

        kept, held_out = [], []
        for key in sessions[0]:
            shuffled = generator(self.seed, f"images of {key}").permutation(sorted_by_file(images, train[key]))
            validation, rest, _ = cut(shuffled, (self.validation, None, 0), f"the training list of class {key!r}")
            kept.append(rest)
            held_out.append(validation)
        novel = [key for session in sessions[1:] for key in session]
        pools = []
        for key in novel:
            unlisted = np.setdiff1d(images.indices_of(class_of[key]), np.concatenate([train[key], test[key]]))
            pools.append(np.concatenate([train[key], sorted_by_file(images, unlisted)]))
        return self.split(
            images,
            [class_of[key] for key in sessions[0]],
            [kept, held_out, [test[key] for key in sessions[0]]],
            [class_of[key] for key in novel],
            [pools, [], [test[key] for key in novel]],
            sessions=tuple(tuple(class_of[key] for key in session) for session in sessions[1:]),
            listed_support=min((len(train[key]) for key in novel), default=0),
        )

    def _list_of(self, images: ImageSet) -> tuple[Path, Any]:
        """The lists and what they say: those given, those beside the images, or the package's of these classes."""
        if self.lists is None and (images.source is None or find_beside(images.source, LIST_NAMES) is None):
            for entry in PUBLISHED.iterdir():
                with resources.as_file(entry) as path:
                    record = read_json(path)
                if set(record["class_order"]) <= set(images.class_keys):
                    return path, record
        path = find_list(images, self.lists, LIST_NAMES, "split 'fixed'")
        return path, read_json(path)


def _rows(images: ImageSet, by_name: dict[tuple[int, str], int], key: str, names: list[str], lists: Path) -> IntArray:
    """Indices of images of one class by bare file name."""
    class_index = images.class_index(key)
    try:
        return np.array([by_name[class_index, name] for name in names], dtype=np.int64)
    except KeyError as error:
        raise DataError(
            f"{lists.name} lists {error.args[0][1]} of class {key!r}, which is not among these images "
            f"({images.files[0]}, ...): the fixed split needs images with their file names"
        ) from None
