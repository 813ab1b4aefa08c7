"""A catalogue for programs and people on the network: a REST service and its page.

`subspan.serve.app.create_app` makes the application; it needs the extra ``serve``, the settings here do not.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    from subspan.old_names import find

    return find(__name__, name)
