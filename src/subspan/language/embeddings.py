"""Embeddings of classes from a file: word vectors averaged over the words of a name, or one vector per class."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.files.arrays import read_arrays
from subspan.language.errors import EmbeddingError, warn_of_zero
from subspan.language.words import mean_of_words, read_word_vectors, words_of

KEYS = {"tokens", "names", "wnids"}


def class_embeddings(
    path: str | Path, names: Sequence[str] | None, wnids: Sequence[str] | None = None
) -> NDArray[np.float32]:
    """Embeddings (C, e) of classes from a file.

    Parameters
    ----------
    path : GloVe text file (also .gz); or npz with ``tokens`` (T,) and ``vectors`` (T, e): word vectors; or npz with
        ``names`` or ``wnids`` (C,) and ``vectors`` (C, e): one vector per class.
    names : class names, words separated by spaces.
    wnids : their WordNet ids, for files that go by these.
    """
    path = Path(path)
    vectors, lists = _read_npz(path) if path.suffix == ".npz" else (None, {})
    if vectors is None or "tokens" in lists:
        if names is None:
            raise EmbeddingError(f"'{path}' goes by names, which the classes do not have")
        words = words_of(names)
        if vectors is None:
            known = read_word_vectors(path, words)
        else:
            known = {token: vector for token, vector in zip(lists["tokens"], vectors, strict=True) if token in words}
        if not known:
            raise EmbeddingError(f"'{path}' has a vector for no word of the {len(names)} class names")
        return mean_of_words(names, known)
    for key, wanted in (("wnids", wnids), ("names", names)):
        if key in lists and wanted is not None:
            index = {item: i for i, item in enumerate(lists[key])}
            if len(index) < len(vectors):
                twice = Counter(lists[key]).most_common(1)[0][0]
                raise EmbeddingError(f"'{path}' has more than one vector for class '{twice}'")
            missing = [item for item in wanted if item not in index]
            if missing:
                raise EmbeddingError(f"'{path}' has no embedding for class '{missing[0]}' ({len(missing)} are missing)")
            found = vectors[[index[item] for item in wanted]]
            warn_of_zero(wanted, found, f"in '{path}'")
            return found
    what = "WordNet ids" if "wnids" in lists else "names"
    raise EmbeddingError(f"'{path}' goes by {what}, which the classes do not have")


def _read_npz(path: Path) -> tuple[NDArray[np.float32], dict[str, list[str]]]:
    """The vectors (n, e) of the file, and what it has of ``tokens``, ``names`` and ``wnids`` (n,), bytes as text."""
    arrays, _ = read_arrays(path, "", EmbeddingError)
    vectors = arrays.get("vectors", np.zeros(0))
    if vectors.ndim != 2 or vectors.size == 0 or vectors.dtype.kind not in "iuf" or not KEYS & arrays.keys():
        raise EmbeddingError(f"'{path}' must hold 'vectors' (n, e) of numbers, with 'tokens', 'names' or 'wnids' (n,)")
    if not np.isfinite(vectors).all():
        raise EmbeddingError(f"the vectors of '{path}' hold NaN or infinity")
    lists = {}
    for key in KEYS & arrays.keys():
        if arrays[key].shape != (len(vectors),):
            raise EmbeddingError(f"'{path}' has {arrays[key].size} {key} for {len(vectors)} vectors")
        try:
            lists[key] = [item.decode() if isinstance(item, bytes) else item for item in arrays[key].tolist()]
        except UnicodeDecodeError as error:
            raise EmbeddingError(f"the {key} of '{path}' are bytes and not UTF-8: {error}") from error
    return vectors.astype(np.float32), lists
