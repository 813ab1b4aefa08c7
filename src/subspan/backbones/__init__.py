"""Networks: any module from images (n, 3, h, w) to features (n, d) is a backbone; these are the ones the field uses."""

from functools import partial

from subspan.old_names import find

__getattr__ = partial(find, __name__)
