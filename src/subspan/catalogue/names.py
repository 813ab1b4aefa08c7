"""Names of classes as people type them: in one form of Unicode, visible, and told apart from those that are known."""

import difflib
import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from subspan.catalogue.errors import CatalogueError, CloseNameError

Value = TypeVar("Value")

LONGEST = 200
SHORT = 5  # names of fewer letters may differ by one letter without being asked about: cat, bat
INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")  # these count as printable, and show nothing
SELECTORS = ((0x180B, 0x180F), (0xFE00, 0xFE0F), (0xE0100, 0xE01EF))  # of variants of the letter before
LOOKALIKES = str.maketrans("авекмнорстухіѕјԁɡαβεικνορτυχ", "abekmhopctyxisjdgabeikvoptux")  # in small letters


def clean_name(name: Any) -> str:
    """A class's name as it is kept: compatibility forms and spaces made plain; what cannot be seen is refused.

    >>> clean_name("ﬁnch  (male)")
    'finch (male)'
    """
    if not isinstance(name, str) or not name.strip():
        raise CatalogueError(f"a class name is text that is not empty; got {name!r}")
    if len(name) > LONGEST or not name.isprintable() or name != name.strip():
        raise CatalogueError(
            f"a class name has at most {LONGEST} printable characters and no space at its ends; got {name[:60]!r}"
        )
    for letter in name:
        if letter in INVISIBLE or any(first <= ord(letter) <= last for first, last in SELECTORS):
            raise CatalogueError(f"a class name shows all its letters; {name[:60]!r} holds U+{ord(letter):04X}")
    return " ".join(unicodedata.normalize("NFKC", name).split())


def by_clean_name(values: Mapping[str, Value]) -> dict[str, Value]:
    """The same by clean names, which must differ."""
    clean: dict[str, Value] = {}
    for name, value in values.items():
        if (kept := clean_name(name)) in clean:
            raise CatalogueError(f"two classes would have the one name '{kept}'")
        clean[kept] = value
    return clean


def clean_descriptions(descriptions: Mapping[str, str] | None) -> dict[str, str]:
    return {clean_name(name): text.strip() for name, text in (descriptions or {}).items() if text.strip()}


def check_not_close(name: str, known: Iterable[str]) -> None:
    """Refuse a new name that is likely a typing error, or a look-alike, of one that is known."""
    mine = _folded(name)
    for other in known:
        theirs = _folded(other)
        if mine == theirs or (min(len(mine), len(theirs)) >= SHORT and _is_slip(mine, theirs)):
            raise CloseNameError(name, other)


def check_known(name: str, known: Iterable[str]) -> None:
    """Refuse a name that is not known, with the one that may be meant."""
    known = list(known)
    if name not in known:
        meant = next((other for other in known if _folded(other) == _folded(name)), None)
        meant = meant or next(iter(difflib.get_close_matches(name, known, 1)), None)
        raise CatalogueError(f"class '{name}' is not known" + (f"; did you mean '{meant}'?" if meant else ""))


def _folded(name: str) -> str:
    """What is left of a name without case, spaces and scripts."""
    plain = unicodedata.normalize("NFKC", name).casefold().translate(LOOKALIKES)
    return "".join(letter for letter in plain if letter not in " _-.")


def _is_slip(one: str, other: str) -> bool:
    """Whether one letter too many, too few or wrong, or two swapped, make the difference; numbers are meant.

    >>> _is_slip("robin", "robbin"), _is_slip("robin", "rboin"), _is_slip("apple1", "apple2"), _is_slip("tern", "wren")
    (True, True, False, False)
    """
    while one and other and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    if any(letter.isdigit() for letter in one + other):
        return False
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])
