"""Networks that are trained already: photographs in, features out, each with the preprocessing it was trained for."""

from functools import partial

from subspan.old_names import find

__getattr__ = partial(find, __name__)
