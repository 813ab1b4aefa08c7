"""What can be wrong with embeddings, and what is worth a warning."""

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_NAMED = 10  # classes that a warning names; of further ones it says how many
OF_WORDS = "as the mean of its words that have a vector"


class EmbeddingError(ValueError):
    """Embeddings cannot be read or made, or do not cover the classes."""


class UnknownNameWarning(UserWarning):
    """The embedding of a class is the zero vector, mostly as no word of its name is known."""


def warn_of_zero(names: Sequence[str], vectors: NDArray[np.floating], where: str) -> None:
    """Say which of the vectors (C, e) of these names are zero, if any: never silently."""
    zero = [repr(name) for name, vector in zip(names, vectors, strict=True) if not vector.any()]
    if zero:
        listed = ", ".join(zero[:_NAMED]) + (f" and {len(zero) - _NAMED} more" if len(zero) > _NAMED else "")
        text = f"the embedding of {listed} {where} is zero, its target the mean of all base rows"
        warnings.warn(text, UnknownNameWarning, stacklevel=3)
