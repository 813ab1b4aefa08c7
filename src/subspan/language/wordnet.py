"""WordNet's nouns, from the files of Debian's package wordnet-base (or any WordNet 3.0 ``dict`` folder).

The id of a synset, as in ImageNet's class names, is ``n`` and the byte offset of its line in ``data.noun``.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

DEBIAN = Path("/usr/share/wordnet")


class WordNetError(ValueError):
    """WordNet's files are not there, or have no such synset, word or sense."""


@dataclass(frozen=True)
class Synset:
    """One sense: what it is called and what it means."""

    wnid: str
    lemmas: tuple[str, ...]
    gloss: str  # definition, then examples in quotation marks

    @property
    def definition(self) -> str:
        """The gloss without its examples."""
        return self.gloss.partition('; "')[0].strip()


class WordNet:
    """The nouns of WordNet in a folder with ``data.noun`` and ``index.noun``.

    Examples
    --------
    >>> WordNet().find("boxer", sense=4).definition  # doctest: +SKIP
    'a breed of stocky medium-sized short-haired dog with a brindled coat and square-jawed muzzle developed in Germany'
    """

    def __init__(self, folder: str | Path = DEBIAN) -> None:
        self.folder = Path(folder)
        for name in ("data.noun", "index.noun"):
            if not (self.folder / name).is_file():
                raise WordNetError(
                    f"there is no '{self.folder / name}'; on Debian and Ubuntu: apt-get install wordnet-base"
                )

    def synset(self, wnid: str) -> Synset:
        """The synset with this id, such as ``n02108089``."""
        if not re.fullmatch(r"n\d{8}", wnid):
            raise WordNetError(f"the id of a noun is 'n' and eight digits; got '{wnid}'")
        with (self.folder / "data.noun").open("rb") as file:
            file.seek(int(wnid[1:]))
            line = file.readline().decode("utf-8", "replace")
        # 02108089 05 n 01 boxer 0 001 @ 02103406 n 0000 | gloss; the number of words is hexadecimal
        fields, _, gloss = line.partition(" | ")
        head = fields.split(" ")
        if head[0] != wnid[1:] or not gloss:
            raise WordNetError(f"'{self.folder}' has no synset '{wnid}'; ids are those of WordNet 3.0")
        return Synset(wnid, tuple(head[4 : 4 + 2 * int(head[3], 16) : 2]), gloss.strip())

    def senses(self, name: str) -> tuple[Synset, ...]:
        """All senses of a noun, the most usual first."""
        lemma = "_".join(name.lower().split())
        line = re.search(rf"^{re.escape(lemma)} n (\d+) .*$", self._index, re.MULTILINE)
        if not lemma or line is None:
            raise WordNetError(f"WordNet has no noun '{name}'")
        return tuple(self.synset(f"n{offset}") for offset in line[0].split()[-int(line[1]) :])

    def find(self, name: str, sense: int = 1) -> Synset:
        """One sense of a noun, counted from 1."""
        senses = self.senses(name)
        if not 1 <= sense <= len(senses):
            meanings = "; ".join(f"{i}: {synset.definition}" for i, synset in enumerate(senses, 1))
            raise WordNetError(f"'{name}' has the senses {meanings}; got sense {sense}")
        return senses[sense - 1]

    @cached_property
    def _index(self) -> str:
        return (self.folder / "index.noun").read_text("utf-8")
