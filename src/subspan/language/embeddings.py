"""Embeddings of classes from a file: word vectors averaged over the words of a name, or one vector per class."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.language.errors import EmbeddingError, warn_of_zero
from subspan.language.words import mean_of_words, read_word_vectors, words_of


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
    arrays = _read_npz(path) if path.suffix == ".npz" else None
    if arrays is None or "tokens" in arrays:
        names = _needed(names, path)
        words = words_of(names)
        if arrays is None:
            known = read_word_vectors(path, words)
        else:
            pairs = zip(arrays["tokens"].tolist(), arrays["vectors"], strict=True)
            known = {token: vector for token, vector in pairs if token in words}
        if not known:
            raise EmbeddingError(f"'{path}' has a vector for no word of the {len(names)} class names")
        return mean_of_words(names, known)
    for key, wanted in (("wnids", wnids), ("names", names)):
        if key in arrays and wanted is not None:
            items = arrays[key].tolist()
            index = {item: i for i, item in enumerate(items)}
            if len(index) < len(items):
                twice = Counter(items).most_common(1)[0][0]
                raise EmbeddingError(f"'{path}' has more than one vector for class '{twice}'")
            missing = [item for item in wanted if item not in index]
            if missing:
                raise EmbeddingError(f"'{path}' has no embedding for class '{missing[0]}' ({len(missing)} are missing)")
            found = arrays["vectors"][[index[item] for item in wanted]]
            warn_of_zero(wanted, found, f"in '{path}'")
            return found
    if "wnids" in arrays:
        raise EmbeddingError(f"'{path}' goes by WordNet ids, which the classes do not have")
    _needed(names, path)
    raise EmbeddingError(f"'{path}' must name its vectors by 'tokens', 'names' or 'wnids'")


def _needed(names: Sequence[str] | None, path: Path) -> Sequence[str]:
    if names is None:
        raise EmbeddingError(f"'{path}' goes by names, which the classes do not have")
    return names


def _read_npz(path: Path) -> dict[str, NDArray]:
    """The arrays of the file, ``vectors`` (n, e) as float32 and the others one per vector, bytes as text."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # zipfile and zlib raise their own kinds
        raise EmbeddingError(f"'{path}' is no readable npz file of embeddings: {error}") from error
    vectors = arrays.get("vectors", np.zeros(0))
    if vectors.ndim != 2 or len(vectors) == 0 or vectors.dtype.kind not in "iuf":
        raise EmbeddingError(f"'{path}' must hold 'vectors' (n, e) with 'tokens', 'names' or 'wnids' (n,)")
    if vectors.shape[1] == 0:
        raise EmbeddingError(f"the vectors of '{path}' have width 0")
    if not np.isfinite(vectors).all():
        raise EmbeddingError(f"the vectors of '{path}' hold NaN or infinity")
    for key in ("tokens", "names", "wnids"):
        if key not in arrays:
            continue
        if arrays[key].shape != (len(vectors),):
            raise EmbeddingError(f"'{path}' has {arrays[key].size} {key} for {len(vectors)} vectors")
        if arrays[key].dtype.kind == "S":
            try:
                arrays[key] = np.char.decode(arrays[key], "utf-8")
            except UnicodeDecodeError as error:
                raise EmbeddingError(f"the {key} of '{path}' are bytes and not UTF-8: {error}") from error
    return arrays | {"vectors": vectors.astype(np.float32)}
