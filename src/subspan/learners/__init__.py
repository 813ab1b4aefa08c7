"""Methods: one file each. A method says how the rows of novel classes come about and how rows score a query."""

from subspan.engine.contract import BaseSession, Head, Memory, Method, Session, Update
from subspan.learners.automatic import AUTO, automatic_method
from subspan.learners.registry import create_method, list_methods, method_options, register, spec_of
from subspan.learners.subspace import DegenerateSpanWarning

__all__ = [
    "AUTO",
    "BaseSession",
    "DegenerateSpanWarning",
    "Head",
    "Memory",
    "Method",
    "Session",
    "Update",
    "automatic_method",
    "create_method",
    "list_methods",
    "method_options",
    "register",
    "spec_of",
]
