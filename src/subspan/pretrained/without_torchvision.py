"""Let packages be imported that ask for torchvision but do not need it to run a network.

timm and open_clip import torchvision for their augmentations, which nobody calls here: photographs are prepared by
`Preprocessing`. torchvision's wheel from PyPI does not load beside a torch without CUDA, so where it is missing or
broken these packages get names in its place that mean nothing, for the time of their import only.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterator
from typing import Any

PACKAGE = "torchvision"


class _Nothing(type):
    """A class that can be named, derived from and asked for attributes (`InterpolationMode.BICUBIC`)."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Module(types.ModuleType):
    """A module that has every name."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Nothing(name, (), {"__module__": self.__name__})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torchvision, whatever is asked of it."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        ours = fullname.partition(".")[0] == PACKAGE
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if ours else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


@contextlib.contextmanager
def importable_without_torchvision() -> Iterator[None]:
    """Imports of torchvision inside the block succeed; afterwards it is as missing, or as broken, as it was."""
    try:
        importlib.import_module(PACKAGE)
    except (ImportError, RuntimeError, AttributeError):  # one that does not fit torch raises any of them
        finder = _Finder()
    else:
        yield
        return
    _forget()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]
