"""A catalogue for programs and people on the network: a REST service and its page.

`subspan.serve.app.create_app` makes the application; it needs the extra ``serve``, the settings here do not.
"""

from functools import partial

from subspan.old_names import find

__getattr__ = partial(find, __name__)
