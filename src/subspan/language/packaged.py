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
from safetensors import safe_open

from subspan.language.errors import EmbeddingError, warn_of_unknown

PACKAGED = ("glove300", "glove100", "description")


class _Classes(NamedTuple):
    rows: dict[str, int]  # by wnid
    names: list[str]
    definitions: list[str]


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
    vectors = _vectors(_known(kind))
    classes = _classes()
    missing = [wnid for wnid in wnids if classes.rows.get(wnid, len(vectors)) >= len(vectors)]
    if missing:
        covered = "miniImageNet" if len(vectors) < len(classes.names) else "miniImageNet and tieredImageNet"
        name = f" ({classes.names[classes.rows[missing[0]]]})" if missing[0] in classes.rows else ""
        raise EmbeddingError(
            f"the packaged embeddings '{kind}' cover the {len(vectors)} classes of {covered} and lack class "
            f"'{missing[0]}'{name}; {len(missing)} of {len(wnids)} are missing"
        )
    found = vectors[[classes.rows[wnid] for wnid in wnids]].astype(np.float32)
    warn_of_unknown([classes.names[classes.rows[w]] for w, v in zip(wnids, found, strict=True) if not v.any()])
    return found


def packaged_covers(kind: str, wnids: Sequence[str]) -> bool:
    """Whether the package has embeddings of this kind for all of these classes."""
    rows, count = _classes().rows, len(_vectors(_known(kind)))
    return all(rows.get(wnid, count) < count for wnid in wnids)


def names_of_wnids(wnids: Sequence[str]) -> tuple[str, ...] | None:
    """The names of these classes, or None where one is unknown.

    >>> names_of_wnids(["n02108089"])
    ('boxer',)
    """
    return _of_wnids(wnids, _classes().names)


def definitions_of_wnids(wnids: Sequence[str]) -> tuple[str, ...] | None:
    """WordNet's definitions of these classes, or None where one is unknown.

    >>> definitions_of_wnids(["n02165456"])
    ('small round bright-colored and spotted beetle that usually feeds on aphids and other insect pests',)
    """
    return _of_wnids(wnids, _classes().definitions)


def _of_wnids(wnids: Sequence[str], known: Sequence[str]) -> tuple[str, ...] | None:
    rows = [_classes().rows.get(wnid) for wnid in wnids]
    return None if None in rows else tuple(known[row] for row in rows if row is not None)


def _known(kind: str) -> str:
    if kind not in PACKAGED:
        raise EmbeddingError(f"there are no packaged embeddings '{kind}'; there are {', '.join(PACKAGED)}")
    return kind


@cache
def _classes() -> _Classes:
    with _open() as path, safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["subspan"])
    return _Classes({wnid: i for i, wnid in enumerate(header["wnids"])}, header["names"], header["definitions"])


@cache
def _vectors(kind: str) -> NDArray[np.float16]:
    with _open() as path, safe_open(path, framework="np") as file:
        return file.get_tensor(kind)


def _open():
    return resources.as_file(resources.files("subspan.features.bundle") / "class-embeddings.safetensors")
