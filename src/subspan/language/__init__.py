"""From class names and descriptions to vectors: word vectors, sentence embeddings, WordNet, and what is packaged."""

from .descriptions import description_embeddings, packaged_model
from .embeddings import class_embeddings
from .errors import EmbeddingError, UnknownNameWarning
from .packaged import PACKAGED, definitions_of_wnids, names_of_wnids, packaged_covers, packaged_embeddings
from .wordnet import Synset, WordNet, WordNetError
from .words import mean_of_words, read_word_vectors, words_of

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
