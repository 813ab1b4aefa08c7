"""The formats of data sets of images: a file each, whose `recognise` is decorated, with `read` and `TAKES`."""

from importlib import import_module
from types import ModuleType

from subspan.registry import Registry

FORMATS = Registry("image format", "register_format", ("subspan.images.formats",), "subspan.images")
# Decorates ``recognise(path) -> bool`` of a module that has ``read(path, options) -> ImageSet`` and ``TAKES``, what it
# reads in words. ``ANY_CLASSES`` marks those that take any folders of classes: others are asked before them.
register_format = FORMATS.named


def image_formats() -> list[ModuleType]:
    """The modules of all formats, in the order in which they are asked."""
    modules = [import_module(entry.path.partition(":")[0]) for entry in FORMATS.entries()]
    return sorted(modules, key=lambda module: getattr(module, "ANY_CLASSES", False))
