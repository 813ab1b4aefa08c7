"""From class names and descriptions to vectors: word vectors, sentence embeddings, WordNet, and what is packaged."""

from typing import Any


def __getattr__(name: str) -> Any:
    from subspan.old_names import find

    return find(__name__, name)
