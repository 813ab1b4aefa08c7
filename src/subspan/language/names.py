"""Names of the miniImageNet classes by their WordNet ids, for feature files that carry ids only."""

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources


@cache
def _table() -> dict[str, str]:
    return json.loads((resources.files("subspan.bundle") / "class-names.json").read_text("utf-8"))


def names_of_wnids(wnids: Sequence[str]) -> tuple[str, ...] | None:
    """The names of these classes, or None where one is unknown.

    >>> names_of_wnids(["n02108089"])
    ('boxer',)
    """
    table = _table()
    return tuple(table[wnid] for wnid in wnids) if all(wnid in table for wnid in wnids) else None
