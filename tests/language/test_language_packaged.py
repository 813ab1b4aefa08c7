"""The embeddings inside the package: right vectors for right classes, and what they lack is named."""

import json
import warnings
from importlib import resources

import numpy as np
import pytest

from subspan.language.errors import EmbeddingError, UnknownNameWarning
from subspan.language.packaged import (
    PACKAGED,
    definitions_of_wnids,
    names_of_wnids,
    packaged_covers,
    packaged_embeddings,
)

BOXER, MASTIFF, VASE, KOMONDOR, BRAMBLING = "n02108089", "n02108551", "n04522168", "n02105505", "n01530575"


def classes_of(shared_data, name):
    return json.loads((shared_data / f"{name}-imagenet" / "classes.json").read_text("utf-8"))


def test_the_file_is_small_and_has_its_licences_beside_it():
    bundle = resources.files("subspan.features.bundle")
    with resources.as_file(bundle / "class-embeddings.safetensors") as path:
        assert path.stat().st_size < 2_000_000
    licences = (bundle / "LICENSES.md").read_text("utf-8")
    for owner in ("Princeton University", "Afra Feyza Akyürek", "GRAYPE Systems", "Public Domain Dedication", "Apache"):
        assert owner in licences


@pytest.mark.parametrize(("kind", "width"), [("glove300", 300), ("glove100", 100), ("description", 384)])
def test_classes_come_in_the_order_asked_for(kind, width):
    found = packaged_embeddings(kind, [BOXER, VASE, BOXER])
    assert found.shape == (3, width)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found[0], found[2])
    assert (found[0] != found[1]).any()


def test_every_class_of_both_datasets_is_known(shared_data):
    for name, kinds in (("mini", PACKAGED), ("tiered", ("glove100", "description"))):
        classes = classes_of(shared_data, name)
        wnids = [entry["wnid"] for entry in classes]
        assert names_of_wnids(wnids) == tuple(entry["name"] for entry in classes)
        assert definitions_of_wnids(wnids) == tuple(entry["definition"] for entry in classes)
        for kind in kinds:
            assert packaged_covers(kind, wnids)
    assert not packaged_covers("glove300", wnids)


@pytest.mark.parametrize(("kind", "file"), [("glove300", "glove300-mini-imagenet"), ("glove100", "glove100-classes")])
def test_word_vectors_are_means_of_the_source(kind, file, shared_data):
    with np.load(shared_data / "language" / f"{file}.npz") as arrays:
        words = dict(zip(arrays["tokens"].tolist(), arrays["vectors"].astype(np.float64), strict=True))
    plain = {  # names whose every word has a vector of its own
        entry["wnid"]: [words[word] for word in entry["name"].split()]
        for entry in classes_of(shared_data, "mini")
        if all(word in words for word in entry["name"].split())
    }
    assert len(plain) == 99
    found = packaged_embeddings(kind, list(plain))
    for vector, known in zip(found, plain.values(), strict=True):
        np.testing.assert_allclose(vector, sum(known) / len(known), rtol=1e-3, atol=1e-3)


def test_descriptions_are_of_the_right_sense():
    boxer, mastiff, vase = packaged_embeddings("description", [BOXER, MASTIFF, VASE])
    np.testing.assert_allclose([boxer @ boxer, vase @ vase], 1, atol=1e-3)
    assert boxer @ mastiff > boxer @ vase
    assert "dog" in definitions_of_wnids([BOXER])[0]


@pytest.mark.parametrize("kind", ["glove300", "glove100"])
def test_a_zero_vector_is_never_silent(kind):
    with pytest.warns(
        UnknownNameWarning, match="the embedding of 'komondor' as the mean of its words that have a vector is zero"
    ):
        found = packaged_embeddings(kind, [BOXER, KOMONDOR])
    assert found[0].any()
    assert not found[1].any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        packaged_embeddings(kind, [BOXER, VASE])
        assert packaged_embeddings("description", [KOMONDOR, BRAMBLING]).any(1).all()


def test_what_is_lacking_is_named():
    message = r"'glove300' cover the 100 classes of miniImageNet and lack class 'n01530575' \(brambling\); 1 of 2"
    with pytest.raises(EmbeddingError, match=message):
        packaged_embeddings("glove300", [BOXER, BRAMBLING])
    message = (
        "'description' cover the 650 classes of miniImageNet and tieredImageNet and lack class 'n00000001'; 2 of 3"
    )
    with pytest.raises(EmbeddingError, match=message):
        packaged_embeddings("description", [BOXER, "n00000001", "x"])
    with pytest.raises(EmbeddingError, match="no packaged embeddings 'glove50'; there are glove300, glove100, descr"):
        packaged_embeddings("glove50", [BOXER])
    assert names_of_wnids([BOXER, "n00000001"]) is None
    assert definitions_of_wnids([BOXER, "n00000001"]) is None
    assert not packaged_covers("description", [BOXER, "n00000001"])
