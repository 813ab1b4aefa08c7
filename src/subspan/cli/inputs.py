"""What several commands read: feature files with the names and the embeddings of their classes."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from numpy.typing import NDArray

from subspan.features import FeatureFileError, FeatureSet, bundled
from subspan.language import class_embeddings, names_of_wnids
from subspan.protocols.multi_session import ProtocolError


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
    """Embeddings (C0 + C1, e) of the classes: by name from the feature file, from an npz file, or the file's first."""
    if wanted is None:
        return next(iter(features.embeddings.values()), None)
    if wanted in features.embeddings:
        return features.embeddings[wanted]
    if not wanted.endswith(".npz"):
        offered = ", ".join(features.embeddings) or "none"
        raise ProtocolError(f"there are no embeddings '{wanted}'; the feature file has {offered}; or name an npz file")
    if features.base_names is None or features.novel_names is None:
        raise ProtocolError("embeddings by name need class names, which the feature file lacks")
    wnids = None
    if features.base_wnids is not None and features.novel_wnids is not None:
        wnids = features.base_wnids + features.novel_wnids
    return class_embeddings(wanted, features.class_names, wnids)
