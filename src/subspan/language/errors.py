"""What can be wrong with embeddings, and what is worth a warning."""

import warnings
from collections.abc import Sequence


class EmbeddingError(ValueError):
    """Embeddings cannot be read or made, or do not cover the classes."""


class UnknownNameWarning(UserWarning):
    """A class name has no known word; its embedding is the zero vector."""


def warn_of_unknown(names: Sequence[str], stacklevel: int = 3) -> None:
    """Say which names have the zero vector, if any: never silently."""
    if names:
        warnings.warn(
            f"no word of {', '.join(map(repr, names))} has a vector; the embedding is zero, its target the mean of "
            "all base rows",
            UnknownNameWarning,
            stacklevel=stacklevel,
        )
