"""Where the commands find embeddings: the feature file, the package, a file, in this order."""

import dataclasses

import numpy as np
import pytest

from subspan.experiments.named_features import find_all_embeddings, find_embeddings
from subspan.features.feature_set import FeatureSet, bundled
from subspan.language.errors import EmbeddingError, UnknownNameWarning
from subspan.language.packaged import packaged_embeddings

WNIDS = ("n02108089", "n02108551", "n04522168", "n01532829")  # boxer, Tibetan mastiff, vase, house finch
NAMES = ("boxer", "tibetan mastiff", "vase", "house finch")


def features_of(**more):
    rng = np.random.default_rng(0)
    arrays = {
        "base_weight": rng.normal(size=(2, 3)),
        "base_test": rng.normal(size=(2, 1, 3)),
        "novel_test": rng.normal(size=(2, 1, 3)),
        "novel_support": rng.normal(size=(2, 1, 1, 3)),
    }
    return FeatureSet.from_arrays(arrays | more)


def by_wnid(**more):
    return features_of(base_wnids=WNIDS[:2], novel_wnids=WNIDS[2:], **more)


def by_name(**more):
    return features_of(base_names=NAMES[:2], novel_names=NAMES[2:], **more)


def test_the_feature_file_comes_before_the_package():
    own = np.arange(8.0).reshape(4, 2)
    features = by_wnid(**{"embedding.own": own, "embedding.glove300": own + 1})
    np.testing.assert_array_equal(find_embeddings(features, None), own)
    np.testing.assert_array_equal(find_embeddings(features, "glove300"), own + 1)
    np.testing.assert_array_equal(
        find_embeddings(features, "description"), packaged_embeddings("description", list(WNIDS))
    )


def test_a_zero_vector_of_the_feature_file_is_not_silent():
    features = by_name(**{"embedding.own": np.array([[1.0], [0], [2], [0]])})
    for wanted in (None, "own"):
        with pytest.warns(
            UnknownNameWarning, match="embedding of 'tibetan mastiff', 'house finch' in 'own' of the feat"
        ):
            assert find_embeddings(features, wanted).shape == (4, 1)


def test_the_package_serves_files_without_embeddings():
    np.testing.assert_array_equal(find_embeddings(by_wnid(), None), packaged_embeddings("glove300", list(WNIDS)))
    assert find_embeddings(by_wnid(), "glove100").shape == (4, 100)
    assert find_embeddings(features_of(base_wnids=WNIDS[:2], novel_wnids=("n01530575", "n1")), None) is None
    assert find_embeddings(by_name(), None) is None


def test_a_file_of_any_kind(tmp_path):
    (tmp_path / "words").write_text("boxer 1 0\nmastiff 2 0\nvase 3 0\nfinch 4 0\n")
    np.testing.assert_array_equal(find_embeddings(by_name(), str(tmp_path / "words")), [[1, 0], [2, 0], [3, 0], [4, 0]])
    np.savez(tmp_path / "classes.npz", wnids=WNIDS[::-1], vectors=np.arange(1.0, 5)[:, None])
    np.testing.assert_array_equal(find_embeddings(by_wnid(), str(tmp_path / "classes.npz")), [[4], [3], [2], [1]])


def test_one_sentence_for_what_cannot_be_found(tmp_path):
    np.savez(tmp_path / "few.npz", wnids=WNIDS[:3], vectors=np.ones((3, 2)))
    np.savez(tmp_path / "words.npz", tokens=["boxer"], vectors=np.ones((1, 2)))
    np.savez(tmp_path / "wnids.npz", wnids=WNIDS, vectors=np.ones((4, 2)))
    own = by_name(**{"embedding.own": np.ones((4, 2))})
    for features, wanted, message in (
        (own, "glove", r"no embeddings 'glove'; the feature file has own, the package has glove300, glove100, descr"),
        (features_of(), "glove100", "'glove100' go by WordNet ids, which the feature file lacks"),
        (features_of(), str(tmp_path / "few.npz"), "embeddings by name need class names, which the feature file lacks"),
        (by_wnid(), str(tmp_path / "few.npz"), r"few.npz' has no embedding for class 'n01532829' \(1 are missing\)"),
        (by_wnid(), str(tmp_path / "words.npz"), "words.npz' goes by names, which the classes do not have"),
        (by_name(), str(tmp_path / "wnids.npz"), "wnids.npz' goes by WordNet ids, which the classes do not have"),
        (by_name(), str(tmp_path / "none.txt"), "none.txt' cannot be read: .*No such file"),
    ):
        with pytest.raises(EmbeddingError, match=message) as caught:
            find_embeddings(features, wanted)
        assert "\n" not in str(caught.value)


def test_splits_of_one_table_have_embeddings_of_one_width():
    narrow, wide = (by_wnid(**{"embedding.own": np.ones((4, width))}) for width in (2, 3))
    assert [found.shape for found in find_all_embeddings([narrow, wide], "glove100")] == [(4, 100)] * 2
    assert find_all_embeddings([features_of(), narrow], None)[0] is None
    message = "embeddings of file 1 have width 2, those of file 3 have 3; name one kind with --embeddings"
    for wanted in (None, "own"):
        with pytest.raises(EmbeddingError, match=message):
            find_all_embeddings([narrow, narrow, wide], wanted)


def test_the_package_agrees_with_the_bundled_features():
    features = bundled()
    bare = dataclasses.replace(features, embeddings={})
    with pytest.warns(UnknownNameWarning, match="'komondor'"):
        found = find_embeddings(bare, None)
    np.testing.assert_allclose(found, features.embeddings["glove300"], atol=2e-3)
