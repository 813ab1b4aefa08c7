"""What the package knows of the classes of miniImageNet and tieredImageNet: names, definitions and embeddings.

``bundle/class-embeddings.safetensors`` is made by ``benchmarks/make_embeddings.py``. Its header lists 650 classes, the
100 of miniImageNet first; each array holds one kind of embedding for all of them or for as many as it has rows.
"""

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from subspan.files.arrays import read_arrays
from subspan.language.errors import OF_WORDS, EmbeddingError, warn_of_zero

PACKAGED = ("glove300", "glove100", "description")


def packaged_embeddings(kind: str, wnids: Sequence[str]) -> NDArray[np.float32]:
    """Embeddings (C, e) of classes by their WordNet ids, from the file inside the package.

    Parameters
    ----------
    kind : ``glove300`` (miniImageNet only) or ``glove100``, the mean over the words of the name; ``description``, a
        sentence embedding (384) of the WordNet definition.
    wnids : WordNet ids, such as ``n02108089``.

    Examples
    --------
    >>> boxer, mastiff, vase = packaged_embeddings("description", ["n02108089", "n02108551", "n04522168"])
    >>> bool(boxer @ mastiff > boxer @ vase)
    True
    """
    vectors, rows, names = _vectors(kind), _bundle().rows, _bundle().names
    missing = [wnid for wnid in wnids if rows.get(wnid, len(vectors)) >= len(vectors)]
    if missing:
        covered = "miniImageNet" if len(vectors) < len(rows) else "miniImageNet and tieredImageNet"
        name = f" ({names[rows[missing[0]]]})" if missing[0] in rows else ""
        raise EmbeddingError(
            f"the packaged embeddings '{kind}' cover the {len(vectors)} classes of {covered} and lack class "
            f"'{missing[0]}'{name}; {len(missing)} of {len(wnids)} are missing"
        )
    found = vectors[[rows[wnid] for wnid in wnids]].astype(np.float32)
    warn_of_zero([names[rows[wnid]] for wnid in wnids], found, OF_WORDS)
    return found


def packaged_covers(kind: str, wnids: Sequence[str]) -> bool:
    """Whether the package has embeddings of this kind for all of these classes."""
    count = len(_vectors(kind))
    return all(_bundle().rows.get(wnid, count) < count for wnid in wnids)


def names_of_wnids(wnids: Sequence[str]) -> tuple[str, ...] | None:
    """The names of these classes, or None where one is unknown.

    >>> names_of_wnids(["n02108089"])
    ('boxer',)
    """
    return _of_wnids(wnids, _bundle().names)


def definitions_of_wnids(wnids: Sequence[str]) -> tuple[str, ...] | None:
    """WordNet's definitions of these classes, or None where one is unknown.

    >>> definitions_of_wnids(["n02165456"])
    ('small round bright-colored and spotted beetle that usually feeds on aphids and other insect pests',)
    """
    return _of_wnids(wnids, _bundle().definitions)


def _of_wnids(wnids: Sequence[str], known: Sequence[str]) -> tuple[str, ...] | None:
    rows = _bundle().rows
    return tuple(known[rows[wnid]] for wnid in wnids) if rows.keys() >= set(wnids) else None


def _vectors(kind: str) -> NDArray[np.float16]:
    if kind not in PACKAGED:
        raise EmbeddingError(f"there are no packaged embeddings '{kind}'; there are {', '.join(PACKAGED)}")
    return _bundle().vectors[kind]


class _Bundle(NamedTuple):
    vectors: dict[str, NDArray[np.float16]]  # by kind
    rows: dict[str, int]  # by wnid
    names: list[str]
    definitions: list[str]


@cache
def _bundle() -> _Bundle:
    with resources.as_file(resources.files("subspan.features.bundle") / "class-embeddings.safetensors") as path:
        vectors, text = read_arrays(path, "subspan", EmbeddingError)
    header = json.loads(text or "")
    rows = {wnid: row for row, wnid in enumerate(header["wnids"])}
    return _Bundle(vectors, rows, header["names"], header["definitions"])
