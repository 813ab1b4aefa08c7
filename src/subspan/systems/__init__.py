"""Published systems on frozen features: one file each, registered like a method, so that every protocol runs them.

A system's docstring says where it comes from, what setting it was built for, its equations, and where ours departs.
"""

from ..methods import list_methods
from ..methods.registry import import_all
from .base import System

__all__ = ["System", "list_systems"]


def list_systems() -> list[str]:
    """Names of all systems; `subspan.create_method` makes them.

    >>> "teen" in list_systems()
    True
    """
    return list_methods("system")


import_all(__name__)
