"""Embeddings of classes from a file: word vectors averaged over the words of a name, or one vector per class."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


class EmbeddingError(ValueError):
    """Embeddings cannot be read or do not cover the classes."""


class UnknownNameWarning(UserWarning):
    """A class name has no known word; its embedding is the zero vector."""


def class_embeddings(path: str | Path, names: Sequence[str], wnids: Sequence[str] | None = None) -> NDArray[np.float32]:
    """Embeddings (C, e) of classes from an npz file.

    Parameters
    ----------
    path : npz with ``tokens`` (T,) and ``vectors`` (T, e): word vectors; or with ``names`` or ``wnids`` (C,) and
        ``vectors`` (C, e): one vector per class.
    names : class names, words separated by spaces.
    wnids : their WordNet ids, for files that go by these.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:
        raise EmbeddingError(f"'{path}' is no readable npz file of embeddings: {error}") from error
    vectors = arrays.get("vectors", np.zeros(0))
    if vectors.ndim != 2 or len(vectors) == 0 or vectors.dtype.kind not in "iuf":
        raise EmbeddingError(f"'{path}' must hold 'vectors' (n, e) with 'tokens', 'names' or 'wnids' (n,)")
    if not np.isfinite(vectors).all():
        raise EmbeddingError(f"the vectors of '{path}' hold NaN or infinity")
    for key in ("tokens", "names", "wnids"):
        if key in arrays and arrays[key].shape != (len(vectors),):
            raise EmbeddingError(f"'{path}' has {arrays[key].size} {key} for {len(vectors)} vectors")
    vectors = vectors.astype(np.float32)
    if "tokens" in arrays:
        return mean_of_words(names, dict(zip(arrays["tokens"].tolist(), vectors, strict=True)))
    for key, wanted in (("wnids", wnids), ("names", names)):
        if key in arrays and wanted is not None:
            index = {item: i for i, item in enumerate(arrays[key].tolist())}
            missing = [item for item in wanted if item not in index]
            if missing:
                raise EmbeddingError(f"'{path}' has no embedding for class '{missing[0]}' ({len(missing)} are missing)")
            return vectors[[index[item] for item in wanted]]
    raise EmbeddingError(f"'{path}' must name its vectors by 'tokens', 'names' or 'wnids'")


def mean_of_words(names: Sequence[str], vectors: dict[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """Mean vector (C, e) over the known words of each name; a name with none gets zeros and a warning.

    >>> mean_of_words(["white wolf"], {"white": np.array([0.0, 2.0]), "wolf": np.array([1.0, 0.0])})
    array([[0.5, 1. ]], dtype=float32)
    """
    width = len(next(iter(vectors.values())))
    result = np.zeros((len(names), width), np.float32)
    unknown = []
    for i, name in enumerate(names):
        known = [vectors[word] for word in name.lower().split() if word in vectors]
        if known:
            result[i] = np.mean(known, axis=0)
        else:
            unknown.append(name)
    if unknown:
        warnings.warn(
            f"no word of {', '.join(map(repr, unknown))} has a vector; the embedding is zero, its target the mean of "
            "all base rows",
            UnknownNameWarning,
            stacklevel=2,
        )
    return result
