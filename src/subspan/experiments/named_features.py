"""What several commands read: feature files with the names and the embeddings of their classes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from numpy.typing import NDArray

from subspan.experiments.config import Setting
from subspan.features.feature_set import FeatureFileError, FeatureSet, bundled
from subspan.language.embeddings import class_embeddings
from subspan.language.errors import EmbeddingError, warn_of_zero
from subspan.language.packaged import PACKAGED, names_of_wnids, packaged_covers, packaged_embeddings

FILES = (".npz", ".txt", ".vec", ".gz")  # how the names of files of embeddings end


def load_all(files: Sequence[Path]) -> list[FeatureSet]:
    """The feature files, or the bundle where none is named, with class names where their ids are known."""
    sets = [named(FeatureSet.load(path)) for path in files] or [bundled()]
    first = sets[0]
    for path, features in zip(files, sets, strict=False):
        if (features.base_count, features.novel_count) != (first.base_count, first.novel_count):
            raise FeatureFileError(
                f"'{path}' has {features.base_count} base and {features.novel_count} novel classes, '{files[0]}' has "
                f"{first.base_count} and {first.novel_count}; files of one table must be splits of one protocol"
            )
    return sets


def named(features: FeatureSet) -> FeatureSet:
    """The features with names of their classes where only WordNet ids are given and all of them are known."""
    if features.base_wnids is None or features.novel_wnids is None:
        return features
    if features.base_names is not None and features.base_names != features.base_wnids:
        return features
    base, novel = names_of_wnids(features.base_wnids), names_of_wnids(features.novel_wnids)
    if base is None or novel is None:
        return features
    return dataclasses.replace(features, base_names=base, novel_names=novel)


def find_embeddings(features: FeatureSet, wanted: str | None) -> NDArray | None:
    """Embeddings (C0 + C1, e) of the classes, base first.

    ``wanted`` is a name in the feature file, else one of the package (by WordNet ids), else a file; without it the
    feature file's first, else the packaged glove300 where it has all classes, else none.
    """
    wanted, wnids = wanted or usual_embeddings(features), _wnids(features)
    if wanted is None:
        return None
    if wanted in features.embeddings:
        vectors = features.embeddings[wanted]
        warn_of_zero(features.class_names, vectors, f"in '{wanted}' of the feature file")
        return vectors
    if wanted in PACKAGED:
        if wnids is None:
            raise EmbeddingError(f"the packaged embeddings '{wanted}' go by WordNet ids, which the feature file lacks")
        return packaged_embeddings(wanted, wnids)
    if not Path(wanted).is_file() and not wanted.endswith(FILES):
        raise EmbeddingError(
            f"there are no embeddings '{wanted}'; the feature file has {', '.join(features.embeddings) or 'none'}, the "
            f"package has {', '.join(PACKAGED)}, and no file has this name"
        )
    names = None if features.base_names is None or features.novel_names is None else features.class_names
    if names is None and wnids is None:
        raise EmbeddingError("embeddings by name need class names, which the feature file lacks")
    return class_embeddings(wanted, names, wnids)


def usual_embeddings(features: FeatureSet) -> str | None:
    """The name of the embeddings that are taken where none are named, if there are any."""
    if features.embeddings:
        return next(iter(features.embeddings))
    wnids = _wnids(features)
    return "glove300" if wnids and packaged_covers("glove300", wnids) else None


def _wnids(features: FeatureSet) -> tuple[str, ...] | None:
    if features.base_wnids is None or features.novel_wnids is None:
        return None
    return features.base_wnids + features.novel_wnids


def embeddings_of(
    sets: Sequence[FeatureSet], settings: Sequence[Setting], wanted: str | None = None
) -> list[dict[str, NDArray]]:
    """The embeddings (C0 + C1, e) of each file that settings name, else ``wanted``, by name; "" the default ones."""
    needed = [one for one in settings if one.embeddings or wanted or "embeddings" in one.create().needs]
    found: list[dict[str, NDArray]] = [{} for _ in sets]
    for kind in sorted({one.embeddings or wanted or "" for one in needed}):
        for of_file, vectors in zip(found, find_all_embeddings(sets, kind or None), strict=True):
            of_file |= {} if vectors is None else {kind: vectors}
    return found


def find_all_embeddings(sets: Sequence[FeatureSet], wanted: str | None) -> list[NDArray | None]:
    """The embeddings of several splits, all of one width: those of two widths are of two kinds, and no one table."""
    found = [find_embeddings(features, wanted) for features in sets]
    widths = {vectors.shape[1]: i for i, vectors in reversed(list(enumerate(found))) if vectors is not None}
    if len(widths) > 1:
        (width, first), (other, second), *_ = sorted(widths.items(), key=lambda item: item[1])
        raise EmbeddingError(
            f"the embeddings of file {first + 1} have width {width}, those of file {second + 1} have {other}; name one "
            "kind with --embeddings"
        )
    return found
