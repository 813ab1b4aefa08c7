"""Word vectors: files of them, and the mean over the words of a class name.

The rule for a name: it is split at spaces and underscores, and each word is looked up in lower case, then as written. A
word that has no vector is looked up without a final ``'s``; failing that, a hyphenated word is replaced by those of its
parts that have one. The embedding is the mean over all vectors found.
"""

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from subspan.language.errors import OF_WORDS, EmbeddingError, warn_of_zero
from subspan.progress import progress_bar

Vector = NDArray[np.floating]
MEGABYTE = 1 << 20


def mean_of_words(names: Sequence[str], vectors: Mapping[str, Vector]) -> NDArray[np.float32]:
    """Mean vector (C, e) over the known words of each name; a name with none gets zeros and a warning.

    >>> words = {"white": np.array([0.0, 2.0]), "wolf": np.array([1.0, 0.0]), "potter": np.array([3.0, 3.0])}
    >>> mean_of_words(["white wolf", "wolf-white", "potter's wheel"], words)
    array([[0.5, 1. ],
           [0.5, 1. ],
           [3. , 3. ]], dtype=float32)
    """
    if not vectors:
        raise EmbeddingError(f"there are no word vectors at all for names like '{names[0] if names else ''}'")
    result = np.zeros((len(names), len(next(iter(vectors.values())))), np.float32)
    for name, mean in zip(names, result, strict=True):
        known = [vector for word in _split(name) for vector in _look_up(word, vectors)]
        if known:
            mean[:] = np.mean(known, axis=0)
    warn_of_zero(names, result, OF_WORDS)
    return result


def words_of(names: Iterable[str]) -> set[str]:
    """Every form under which the mean over these names may ask for a word.

    >>> sorted(words_of(["Potter's go-kart"]))
    ['Potter', "Potter's", 'go', 'go-kart', 'kart', 'potter', "potter's"]
    """
    return {form for name in names for word in _split(name) for form in _forms(word)}


def _split(name: str) -> list[str]:
    return name.replace("_", " ").replace("\u2019", "'").split()


def _look_up(word: str, vectors: Mapping[str, Vector]) -> list[Vector]:
    for form in (word.lower(), word):
        if form in vectors:
            return [vectors[form]]
    return [vector for part in _parts(word) for vector in _look_up(part, vectors)]


def _parts(word: str) -> list[str]:
    """What stands for a word that has no vector."""
    if word.endswith(("'s", "'S")):
        return [word[:-2]]
    return [part for part in word.split("-") if part] if "-" in word else []


def _forms(word: str) -> set[str]:
    return {word, word.lower()}.union(*map(_forms, _parts(word)))


def read_word_vectors(path: str | Path, words: Iterable[str], *, progress: bool = True) -> dict[str, Vector]:
    """The vectors (e,) of these words from a GloVe text file, ``word v1 v2 ...`` on each line.

    The file may begin with the header of word2vec and fastText (number of words, width), and may be compressed with
    gzip. Only the words asked for are kept, so that a file of several GB needs little memory. Every line must have as
    many numbers as the first; the numbers themselves are read for the words asked for. A word that occurs twice keeps
    its first vector.
    """
    path = Path(path)
    wanted = {word.encode(): word for word in words}
    found: dict[str, Vector] = {}
    try:
        size = -(-path.stat().st_size // MEGABYTE)
        with path.open("rb") as raw, progress_bar(f"reading {path.name} (MB)", size, progress) as advance:
            done = 0
            for number, token, numbers in _lines(_decompressed(raw, path), path):
                if number % 1000 == 0 and (now := raw.tell() // MEGABYTE) > done:
                    advance(now - done)
                    done = now
                if token in wanted and wanted[token] not in found:
                    found[wanted[token]] = _vector(numbers, f"line {number} of '{path}'")
    except (OSError, EOFError, zlib.error) as error:
        raise EmbeddingError(f"'{path}' cannot be read: {error}") from error
    return found


def _lines(file: Iterable[bytes], path: Path) -> Iterator[tuple[int, bytes, bytes]]:
    """The number of each line, its word and its numbers, as many in each."""
    promised, words, width, width_line = None, 0, 0, 1
    for number, line in enumerate(file, 1):
        line = line.rstrip(b" \r\n")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
            fields = line.split()
            if len(fields) == 2 and all(field.isdigit() for field in fields) and int(fields[1]) > 0:
                promised, width = map(int, fields)
                continue
        count = line.count(b" ")
        if not count or line.startswith(b" "):
            raise EmbeddingError(f"line {number} of '{path}' must be a word and its numbers, separated by spaces")
        if not width:
            width, width_line = count, number
        # Some words of glove.840B hold spaces (". . ."); a number too many is something else.
        token = line.partition(b" ")[0] if count == width else line.rsplit(b" ", width)[0]
        if count < width or (count > width and _is_number(token.rpartition(b" ")[2])):
            raise EmbeddingError(
                f"line {number} of '{path}' has {count} numbers, line {width_line} gives the width {width}"
            )
        words += 1
        yield number, token, line[len(token) + 1 :]
    if promised is not None and words != promised:
        raise EmbeddingError(f"'{path}' has {words} words, its first line says {promised}")
    if not words:
        raise EmbeddingError(f"'{path}' holds no word vectors")


def _vector(numbers: bytes, where: str) -> Vector:
    try:
        vector = np.array(numbers.split(b" "), dtype=np.float32)
    except ValueError as error:
        raise EmbeddingError(f"{where} does not hold numbers: {error}") from error
    if not np.isfinite(vector).all():
        raise EmbeddingError(f"{where} holds NaN or infinity")
    return vector


def _is_number(field: bytes) -> bool:
    with suppress(ValueError):
        float(field)
        return True
    return False


def _decompressed(raw: BinaryIO, path: Path) -> Iterable[bytes]:
    magic = raw.read(2)
    raw.seek(0)
    if magic == b"PK":
        raise EmbeddingError(f"'{path}' is a zip archive; unpack it and name the text file in it")
    return gzip.GzipFile(fileobj=raw) if magic == b"\x1f\x8b" else raw
