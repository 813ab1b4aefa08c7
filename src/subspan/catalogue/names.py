"""Names and descriptions of classes as people give them."""

from collections.abc import Mapping
from typing import Any

from subspan.catalogue.errors import CatalogueError


def check_name(name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise CatalogueError(f"a class name is text that is not empty; got {name!r}")
    if len(name) > 200 or not name.isprintable() or name != name.strip():
        raise CatalogueError(
            f"a class name has at most 200 printable characters and no space at its ends; got {name[:60]!r}"
        )


def clean_descriptions(descriptions: Mapping[str, str] | None) -> dict[str, str]:
    return {name: text.strip() for name, text in (descriptions or {}).items() if text.strip()}
