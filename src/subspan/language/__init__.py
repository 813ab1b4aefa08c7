"""From class names and descriptions to vectors: word vectors, sentence embeddings, WordNet, and what is packaged."""

from subspan.language.descriptions import description_embeddings, packaged_model
from subspan.language.embeddings import class_embeddings
from subspan.language.errors import EmbeddingError, UnknownNameWarning
from subspan.language.packaged import (
    PACKAGED,
    definitions_of_wnids,
    names_of_wnids,
    packaged_covers,
    packaged_embeddings,
)
from subspan.language.wordnet import Synset, WordNet, WordNetError
from subspan.language.words import mean_of_words, read_word_vectors, words_of

__all__ = [
    "PACKAGED",
    "EmbeddingError",
    "Synset",
    "UnknownNameWarning",
    "WordNet",
    "WordNetError",
    "class_embeddings",
    "definitions_of_wnids",
    "description_embeddings",
    "mean_of_words",
    "names_of_wnids",
    "packaged_covers",
    "packaged_embeddings",
    "packaged_model",
    "read_word_vectors",
    "words_of",
]
