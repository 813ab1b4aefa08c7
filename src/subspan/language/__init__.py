"""Class-name embeddings: from words to vectors."""

from .embeddings import EmbeddingError, UnknownNameWarning, class_embeddings
from .names import names_of_wnids

__all__ = ["EmbeddingError", "UnknownNameWarning", "class_embeddings", "names_of_wnids"]
