"""Word vectors: the rule for names, and GloVe text files with everything that can be wrong in them."""

import gzip
import warnings

import numpy as np
import pytest

from subspan.language.embeddings import class_embeddings
from subspan.language.errors import EmbeddingError
from subspan.language.words import mean_of_words, read_word_vectors, words_of

GLOVE = "the 9 9 9\nwhite 0 2 4\nwolf 1 0 -1\nblack 2 2 2\nfooted 4 4 4\nferret 6 6 6\npotter 1 2 3\nwheel 3 2 1\n"


@pytest.fixture
def glove(tmp_path):
    def write(text, name="glove.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("white wolf", [0.5, 1, 1.5]),
        ("White_Wolf", [0.5, 1, 1.5]),
        ("black-footed ferret", [4, 4, 4]),  # the hyphenated word is unknown: each of its parts counts as a word
        ("snow-white wolf", [0.5, 1, 1.5]),  # of an unknown word the parts that are known
        ("potter's wheel", [2, 2, 2]),
        ("potter\u2019s wheel", [2, 2, 2]),
        ("unheard of wolf", [1, 0, -1]),
    ],
)
def test_the_rule_for_a_name(name, expected, glove):
    np.testing.assert_array_equal(class_embeddings(glove(GLOVE), [name]), [expected])


def test_a_word_that_has_a_vector_is_not_taken_apart():
    vectors = {word: np.array([value]) for word, value in {"go-kart": 1.0, "go": 5.0, "kart": 9.0}.items()}
    assert mean_of_words(["go-kart"], vectors) == 1
    vectors = {word: np.array([value]) for word, value in {"levi's": 1.0, "levi": 5.0}.items()}
    assert mean_of_words(["levi's"], vectors) == 1


def test_lower_case_comes_before_the_word_as_written():
    both = {"Boxer": np.array([1.0]), "boxer": np.array([2.0]), "Ibizan": np.array([3.0])}
    assert mean_of_words(["Boxer"], both) == 2
    assert mean_of_words(["Ibizan"], both) == 3


def test_a_word_that_is_said_twice_counts_twice():
    vectors = {"black": np.array([0.0]), "white": np.array([3.0])}
    assert mean_of_words(["black black white"], vectors) == 1


def test_no_vectors_at_all_is_an_error():
    with pytest.raises(EmbeddingError, match="no word vectors at all"):
        mean_of_words(["wolf"], {})


@pytest.mark.parametrize("header", ["", "8 3\n"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", " \n"])
def test_only_the_words_asked_for_are_kept(header, ending, glove):
    found = read_word_vectors(glove((header + GLOVE).replace("\n", ending)), ["wolf", "ferret", "lynx"])
    assert set(found) == {"wolf", "ferret"}
    np.testing.assert_array_equal(found["wolf"], [1, 0, -1])
    np.testing.assert_array_equal(found["ferret"], [6, 6, 6])


def test_a_compressed_file(glove):
    path = glove(gzip.compress(GLOVE.encode()), "glove.txt.gz")
    np.testing.assert_array_equal(class_embeddings(path, ["wolf"]), [[1, 0, -1]])


@pytest.mark.parametrize("header", ["", "8 3\n"])
def test_a_byte_order_mark_is_no_part_of_the_first_word(header, glove):
    found = read_word_vectors(glove("\ufeff" + header + GLOVE), ["the", "wheel"])
    assert {word: vector.tolist() for word, vector in found.items()} == {"the": [9, 9, 9], "wheel": [3, 2, 1]}


def test_words_of_other_alphabets_and_words_with_spaces(glove):
    path = glove("akyürek 1 2\nat 3 4\nat name@domain.com 5 6\n. . . 7 8\nwolf\u00a0pack 9 9\n")
    found = read_word_vectors(path, ["akyürek", "at", ".", "wolf"])
    assert {word: vector.tolist() for word, vector in found.items()} == {"akyürek": [1, 2], "at": [3, 4]}


def test_the_first_of_two_vectors_of_a_word_is_kept(glove):
    assert read_word_vectors(glove("wolf 1 2\nwolf 3 4\n"), ["wolf"])["wolf"].tolist() == [1, 2]


FAULTY = {
    "two widths, more": ("a 1 2\nb 1 2 3\n", "line 2 of '.*' has 3 numbers, line 1 gives the width 2"),
    "two widths, fewer": ("a 1 2\nb 1 2\nc 1\n", "line 3 of '.*' has 1 numbers, line 1 gives the width 2"),
    "not the header's width": ("1 3\na 1 2\n", "line 2 of '.*' has 2 numbers, line 1 gives the width 3"),
    "no numbers": ("a 1 2\nb x y\n", "line 2 of '.*' does not hold numbers"),
    "NaN": ("a 1 2\nb nan 1\n", "line 2 of '.*' holds NaN or infinity"),
    "an empty line": ("a 1 2\n\nb 1 2\n", "line 2 of '.*' must be a word and its numbers"),
    "no word": ("a 1 2\n 1 2\n", "line 2 of '.*' must be a word and its numbers"),
    "prose": ("hello\n", "line 1 of '.*' must be a word and its numbers"),
    "cut off": ("3 2\na 1 2\nb 1 2\n", "has 2 words, its first line says 3"),
    "empty": ("", "holds no word vectors"),
    "zip": (b"PK\x03\x04....", "is a zip archive; unpack it"),
    "damaged gzip": (gzip.compress(GLOVE.encode())[:-12], "cannot be read"),
}


@pytest.mark.parametrize("case", FAULTY)
def test_a_faulty_file_is_named_with_its_line(case, glove):
    text, message = FAULTY[case]
    path = glove(text)
    with pytest.raises(EmbeddingError, match=message) as caught:
        class_embeddings(path, ["b"])
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_file_of_other_words(glove, tmp_path):
    with pytest.raises(EmbeddingError, match=r"none.txt' cannot be read: .*No such file"):
        class_embeddings(tmp_path / "none.txt", ["wolf"])
    with pytest.raises(EmbeddingError, match="has a vector for no word of the 2 class names"):
        class_embeddings(glove(GLOVE), ["loup", "furet"])


def test_words_of_names_suffice_for_the_mean(shared_data):
    """Reading only the words asked for changes nothing against reading all."""
    with np.load(shared_data / "language" / "glove100-classes.npz") as file:
        everything = dict(zip(file["tokens"].tolist(), file["vectors"], strict=True))
    names = ["black-and-tan coonhound", "potter's wheel", "four-poster", "Ibizan hound"]
    some = {word: vector for word, vector in everything.items() if word in words_of(names)}
    assert len(some) < 15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(mean_of_words(names, some), mean_of_words(names, everything))
    parts = [everything[word] for word in ("black", "and", "tan", "coonhound")]
    np.testing.assert_allclose(mean_of_words(names, some)[0], np.mean(parts, 0), rtol=1e-6)
