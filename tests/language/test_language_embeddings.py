"""Embeddings of class names: means over known words, one vector per class, and what is said of the rest."""

import numpy as np
import pytest

from subspan.features.feature_set import bundled
from subspan.language.embeddings import class_embeddings
from subspan.language.errors import EmbeddingError, UnknownNameWarning
from subspan.language.packaged import names_of_wnids

WORDS = {"white": [0.0, 2.0], "wolf": [1.0, 0.0], "boxer": [3.0, 3.0]}


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.npz"
    np.savez(path, tokens=np.array(list(WORDS)), vectors=np.array(list(WORDS.values()), np.float16))
    return path


def test_a_name_is_the_mean_of_its_words(words):
    found = class_embeddings(words, ["white wolf", "Boxer", "arctic wolf"])
    np.testing.assert_array_equal(found, [[0.5, 1.0], [3.0, 3.0], [1.0, 0.0]])  # "arctic" is unknown and left out


def test_a_name_without_a_known_word_is_zero_and_named(words):
    with pytest.warns(UnknownNameWarning, match="the embedding of 'komondor', 'dingo dog' as the mean of its words"):
        found = class_embeddings(words, ["wolf", "komondor", "dingo dog"])
    np.testing.assert_array_equal(found, [[1, 0], [0, 0], [0, 0]])


def test_of_many_names_without_a_vector_ten_are_named_and_the_rest_counted(words, tmp_path):
    unknown = [f"thing{i}" for i in range(12)]
    told = ", ".join(map(repr, unknown[:10]))
    with pytest.warns(UnknownNameWarning, match=f"the embedding of {told} and 2 more as the mean"):
        class_embeddings(words, ["wolf", *unknown])
    np.savez(tmp_path / "classes.npz", vectors=np.zeros((11, 2)), names=np.array(unknown[:11]))
    with pytest.warns(UnknownNameWarning, match=f"the embedding of {told} and 1 more in "):
        class_embeddings(tmp_path / "classes.npz", unknown[:11])


@pytest.mark.parametrize("key", ["names", "wnids"])
def test_one_vector_for_each_class_in_the_order_asked_for(key, tmp_path):
    vectors = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "classes.npz", vectors=vectors, **{key: np.array(["a", "b", "c"])})
    asked = ["c", "a"]
    names, wnids = (asked, None) if key == "names" else (["sea", "ay"], asked)
    np.testing.assert_array_equal(class_embeddings(tmp_path / "classes.npz", names, wnids), vectors[[2, 0]])
    with pytest.raises(EmbeddingError, match=r"classes.npz' has no embedding for class 'x' \(2 are missing\)"):
        class_embeddings(tmp_path / "classes.npz", ["x", "y"], ["x", "y"])


@pytest.mark.parametrize("key", ["names", "wnids"])
def test_a_zero_vector_of_a_class_is_not_silent(key, tmp_path):
    np.savez(tmp_path / "classes.npz", vectors=[[0, 0], [1, 0], [0, 0]], **{key: np.array(["a", "b", "c"])})
    with pytest.warns(
        UnknownNameWarning, match=r"embedding of 'c', 'a' in '.*classes\.npz' is zero, its target the mean"
    ):
        class_embeddings(tmp_path / "classes.npz", ["c", "b", "a"], ["c", "b", "a"])


def test_a_zero_vector_of_a_word_is_not_silent(tmp_path):
    np.savez(tmp_path / "words.npz", tokens=np.array(["white", "wolf"]), vectors=[[0, 0], [1, 0]])
    with pytest.warns(
        UnknownNameWarning, match="embedding of 'white' as the mean of its words that have a vector is zero"
    ):
        class_embeddings(tmp_path / "words.npz", ["white", "white wolf"])


def test_equal_names_do_not_matter_where_wnids_tell_classes_apart(tmp_path):
    np.savez(
        tmp_path / "cranes.npz", names=np.array(["crane"] * 2), wnids=np.array(["n1", "n2"]), vectors=[[1.0], [2.0]]
    )
    assert class_embeddings(tmp_path / "cranes.npz", ["crane", "crane"], ["n2", "n1"]).tolist() == [[2], [1]]


@pytest.mark.parametrize("key", ["tokens", "names"])
def test_bytes_are_read_as_text(key, tmp_path):
    np.savez(tmp_path / "bytes.npz", vectors=[[1.0], [2.0]], **{key: np.array([b"wolf", "bär".encode()])})
    assert class_embeddings(tmp_path / "bytes.npz", ["bär", "wolf"]).tolist() == [[2], [1]]


FAULTY = {
    "no vectors": (dict(tokens=np.array(["a"])), "must hold 'vectors'"),
    "flat vectors": (dict(tokens=np.array(["a"]), vectors=np.ones(3)), "must hold 'vectors'"),
    "none at all": (dict(tokens=np.array([], str), vectors=np.ones((0, 3))), "must hold 'vectors'"),
    "words for vectors": (dict(tokens=np.array(["a"]), vectors=np.array([["x"]])), "must hold 'vectors'"),
    "nameless": (dict(vectors=np.ones((1, 3))), "must hold 'vectors' .* with 'tokens', 'names' or 'wnids'"),
    "too few tokens": (dict(tokens=np.array(["a"]), vectors=np.ones((2, 3))), "has 1 tokens for 2 vectors"),
    "no width": (dict(names=np.array(["a"]), vectors=np.ones((1, 0))), "must hold 'vectors'"),
    "other words": (dict(tokens=np.array(["z"]), vectors=np.ones((1, 3))), "a vector for no word of the 1 class names"),
    "a class twice": (
        dict(names=np.array(["a", "b", "a"]), vectors=np.ones((3, 2))),
        "more than one vector for cl.* 'a'",
    ),
    "latin1": (dict(names=np.array([b"b\xe4r"]), vectors=np.ones((1, 3))), "names of '.*' are bytes and not UTF-8"),
    "NaN": (dict(tokens=np.array(["a"]), vectors=np.full((1, 3), np.nan)), "hold NaN or infinity"),
}


@pytest.mark.parametrize("case", FAULTY)
def test_a_faulty_file_is_named(case, tmp_path):
    arrays, message = FAULTY[case]
    np.savez(tmp_path / "faulty.npz", **arrays)
    with pytest.raises(EmbeddingError, match=message) as caught:
        class_embeddings(tmp_path / "faulty.npz", ["a"])
    assert "faulty.npz" in str(caught.value)


def test_an_unreadable_file_is_named(tmp_path):
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(EmbeddingError, match=r"text.npz' is no readable npz file"):
        class_embeddings(tmp_path / "text.npz", ["a"])
    with pytest.raises(EmbeddingError, match=r"missing.npz' is no readable npz file"):
        class_embeddings(tmp_path / "missing.npz", ["a"])


def test_names_of_mini_imagenet():
    assert names_of_wnids(["n02108089", "n01532829"]) == ("boxer", "house finch")
    assert names_of_wnids(["n02108089", "n99999999"]) is None
    features = bundled()
    names = names_of_wnids(features.base_wnids + features.novel_wnids)
    assert len(set(names)) == 100
    assert names == features.class_names


def test_the_bundle_carries_the_word_vectors_of_its_names(shared_data):
    features = bundled()
    path = shared_data / "language" / "glove300-mini-imagenet.npz"
    with np.load(path) as file:
        words = dict(zip(file["tokens"].tolist(), file["vectors"].astype(np.float64), strict=True))
    with pytest.warns(UnknownNameWarning, match="'komondor'"):
        found = class_embeddings(path, features.class_names)
    for name, vector in zip(features.class_names, found, strict=True):
        known = [words[w] for w in name.lower().split() if w in words]
        np.testing.assert_allclose(vector, sum(known) / len(known) if known else 0, atol=1e-5)
    (stored,) = features.embeddings.values()
    np.testing.assert_allclose(stored, found, atol=2e-3)
