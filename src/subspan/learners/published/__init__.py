"""Published systems on frozen features: one file each, registered like a method, so that every protocol runs them.

A system's docstring says where it comes from, what setting it was built for, its equations, and where ours departs.
"""

from subspan.learners.parts.system import System
from subspan.learners.registry import list_methods

__all__ = ["System", "list_network_systems", "list_systems"]


def list_systems() -> list[str]:
    """Names of all systems; `subspan.create_method` makes them.

    >>> "teen" in list_systems()
    True
    """
    return list_methods("system")


def list_network_systems() -> list[str]:
    """Names of the systems that move the network: they need images, and tables show their stored results.

    >>> "topic" in list_network_systems()
    True
    """
    return list_methods("network-system")
