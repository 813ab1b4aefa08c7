"""A classifier of photographs that grows: a store, a pretrained backbone and an incremental classifier in one hand."""

from typing import Any


def __getattr__(name: str) -> Any:
    from subspan.old_names import find

    return find(__name__, name)
