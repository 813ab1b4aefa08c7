"""Vectors of class names or descriptions, for the methods that use language."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.catalogue.options import DESCRIPTION
from subspan.language.descriptions import description_embeddings
from subspan.language.embeddings import class_embeddings


def class_vectors(
    source: str | None, names: Sequence[str], descriptions: Mapping[str, str]
) -> dict[str, NDArray[np.float32]] | None:
    """One vector per class from ``source``; None where the catalogue uses no language.

    ``description`` encodes the description of a class, or its name where it has none, with a sentence encoder, and so
    does a folder that holds one; anything else is a file of word vectors, averaged over the words of the name.
    """
    if not source:
        return None
    if source == DESCRIPTION or Path(source).is_dir():
        model = None if source == DESCRIPTION else source
        vectors = description_embeddings([descriptions.get(name, name) for name in names], model)
    else:
        vectors = class_embeddings(Path(source), [name.lower().replace("_", " ") for name in names])
    return dict(zip(names, vectors, strict=True))
