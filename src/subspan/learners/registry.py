"""The registry of methods: a new one is a decorated class in a file of its own, and nothing else.

Published systems (`subspan.learners.published`) are methods of other kinds: registered and created alike, listed apart.
"""

import importlib
import pkgutil
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from subspan.engine.contract import Method

# Every file of these may register one. Systems are a floor above this one, which knows no more of them than the name.
_PACKAGES = ("subspan.learners", "subspan.learners.published")
_METHODS: dict[str, type[Method]] = {}
AnyMethod = TypeVar("AnyMethod", bound=type[Method])


def register(method: AnyMethod) -> AnyMethod:
    """Class decorator: make a method known by its ``name``."""
    if method.name in _METHODS and _METHODS[method.name].__qualname__ != method.__qualname__:
        raise ValueError(f"a method named '{method.name}' is registered already")
    _METHODS[method.name] = method
    return method


def list_methods(kind: str = "method") -> list[str]:
    """Names of all methods, or of another kind.

    >>> "subspace" in list_methods()
    True
    """
    _import_all()
    return sorted(name for name, method in _METHODS.items() if method.kind == kind)


def method_class(name: str) -> type[Method]:
    _import_all()
    if name not in _METHODS:
        raise ValueError(
            f"there is no method '{name}'; the methods are {', '.join(list_methods())}, "
            f"the systems {', '.join(list_methods('system') + list_methods('network-system'))}"
        )
    return _METHODS[name]


def method_options(name: str) -> dict[str, tuple[str, Any, str]]:
    """The options of a method: name -> (type, default, help)."""
    method = method_class(name)
    hints = get_type_hints(method)
    return {
        f.name: (_type_name(hints[f.name]), f.default, f.metadata.get("help", ""))
        for f in fields(method)  # type: ignore[arg-type]
    }


def create_method(spec: str, **options: Any) -> Method:
    """A method from its name, or from the command line's ``name:option=value,...``; keywords outrank the text.

    >>> create_method("semantic:tau=2", gamma=0.5)
    Semantic(gamma=0.5, ..., tau=2.0)
    """
    name, _, text = spec.partition(":")
    method = method_class(name)
    known = {f.name: f for f in fields(method)}  # type: ignore[arg-type]
    hints = get_type_hints(method)
    given: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals:
            raise ValueError(f"an option reads name=value; got '{item}' in '{spec}'")
        given[key] = value
    given |= options
    for key in given:
        if key not in known:
            offered = ", ".join(known) or "none"
            raise ValueError(f"method '{name}' has no option '{key}'; its options are {offered}")
    return method(**{key: _convert(name, key, value, hints[key]) for key, value in given.items()})


def spec_of(method: Method) -> str:
    """The shortest ``name:option=value,...`` that makes this method.

    >>> spec_of(create_method("subspace:basis=qr,gamma=1.0"))
    'subspace:basis=qr'
    """
    changed = []
    for f in fields(method):  # type: ignore[arg-type]
        value = getattr(method, f.name)
        if f.default is MISSING or value != f.default:
            changed.append(f"{f.name}={_text(value)}")
    return method.name + (":" + ",".join(changed) if changed else "")


def _text(value: Any) -> str:
    """An option's value as `create_method` reads it back."""
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    return str(value).lower() if isinstance(value, bool) else str(value)


def _convert(method: str, key: str, value: Any, hint: Any) -> Any:
    """The value in the option's type; text comes from the command line."""
    if get_origin(hint) is not None:  # Literal
        if value not in get_args(hint):
            choices = ", ".join(map(str, get_args(hint)))
            raise ValueError(f"option '{key}' of method '{method}' must be one of {choices}; got {value!r}")
        return value
    if hint is bool and isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise ValueError(f"option '{key}' of method '{method}' must be true or false; got {value!r}")
        return value.lower() == "true"
    try:
        return hint(value)
    except (TypeError, ValueError):
        raise ValueError(f"option '{key}' of method '{method}' must be {_type_name(hint)}; got {value!r}") from None


def _type_name(hint: Any) -> str:
    if get_origin(hint) is not None:
        return "|".join(map(str, get_args(hint)))
    return {float: "a number", int: "a whole number", bool: "true|false"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )


@cache
def _import_all() -> None:
    """Import every file that may register a method, once."""
    for package in _PACKAGES:
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            importlib.import_module(f"{package}.{module.name}")
