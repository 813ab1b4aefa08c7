"""Networks that are trained already: photographs in, features out, each with the preprocessing it was trained for."""

from typing import Any


def __getattr__(name: str) -> Any:
    from subspan.old_names import find

    return find(__name__, name)
