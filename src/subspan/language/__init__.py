"""From class names and descriptions to vectors: word vectors, sentence embeddings, WordNet, and what is packaged."""

from functools import partial

from subspan.old_names import find

__getattr__ = partial(find, __name__)
