"""What can be wrong with embeddings, and what is worth a warning."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_NAMED = 10  # classes that a warning names; of further ones it says how many


class EmbeddingError(ValueError):
    """Embeddings cannot be read or made, or do not cover the classes."""


class UnknownNameWarning(UserWarning):
    """The embedding of a class is the zero vector, mostly as no word of its name is known."""


def warn_of_unknown(names: Sequence[str]) -> None:
    """Say which names have the zero vector since none of their words is known, if any: never silently."""
    _warn(names, f"no word of {_listed(names)} has a vector; the embedding is zero")


def warn_of_zero(names: Sequence[str], vectors: NDArray[np.floating], where: str, stacklevel: int = 3) -> None:
    """Say which of the vectors (C, e) that were given for these names are zero, if any."""
    zero = [name for name, vector in zip(names, vectors, strict=True) if not vector.any()]
    _warn(zero, f"the embedding of {_listed(zero)} {where} is zero", stacklevel)


def _warn(names: Sequence[str], what: str, stacklevel: int = 3) -> None:
    if names:
        warnings.warn(f"{what}, its target the mean of all base rows", UnknownNameWarning, stacklevel=stacklevel + 1)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(map(repr, names[:_NAMED])) + (f" and {more} more" if more > 0 else "")
