"""Networks: any module from images (n, 3, h, w) to features (n, d) is a backbone; these are the ones the field uses."""

from typing import Any


def __getattr__(name: str) -> Any:
    from subspan.old_names import find

    return find(__name__, name)
