"""Learners by name: ``subspace``, ``semantic:tau=2``, ``mypackage.module:Class:option=value``."""

import sys
import warnings
from dataclasses import MISSING, fields
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from subspan.engine.contract import Learner
from subspan.registry import Entry, Registry

AUTO = "auto"  # the name of whatever `subspan.learners.automatic` finds best
METHODS, SYSTEMS = "subspan.learners", "subspan.learners.published"
LEARNERS = Registry("method", "register", (METHODS, SYSTEMS), "subspan.learners")
AnyLearner = TypeVar("AnyLearner", bound=type[Learner])


def register(learner: AnyLearner) -> AnyLearner:
    """Class decorator: make a learner known by its ``name``."""
    LEARNERS.add(learner.name, learner)
    return learner


def kind_of(entry: Entry) -> str:
    """What a learner is listed under: "method", or, of published ones, "system" or "network-system"."""
    return entry.facts.get("kind", "system" if entry.path.startswith(f"{SYSTEMS}.") else "method")


def list_methods(kind: str = "method") -> list[str]:
    """Names of all methods, or of another kind; nothing is imported.

    >>> "subspace" in list_methods()
    True
    """
    return [entry.name for entry in LEARNERS.entries() if kind_of(entry) == kind]


def summary_of(name: str) -> str:
    """What a learner does, in a line."""
    entry = LEARNERS.get(name)
    return "" if entry is None else entry.facts.get("summary") or entry.load().summary


def list_systems() -> list[str]:
    """Names of all published systems that run on features.

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


def method_class(name: str) -> type[Learner]:
    """The class of this name, or of ``package.module:Class``."""
    entry = LEARNERS.get(name)
    if entry is None:
        raise ValueError(
            f"there is no method '{name}'; the methods are {', '.join(list_methods())}, "
            f"the systems {', '.join(list_systems() + list_network_systems())}"
        )
    try:
        found = entry.load()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"method '{name}' cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ValueError(f"method '{name}' must be a class derived from subspan.Learner; {entry.path} is {found!r}")
    return found


def is_known(spec: str) -> bool:
    """Whether making this method imports nothing that neither an installed package nor this program has named."""
    name = split_spec(spec)[0]
    return name in LEARNERS.added or name in LEARNERS.found or name.partition(":")[0] in sys.modules


def split_spec(spec: str) -> tuple[str, str]:
    """Name and options of ``name:option=value,...``; a name may be ``package.module:Class``.

    >>> split_spec("mine.methods:Mean:share=0.5")
    ('mine.methods:Mean', 'share=0.5')
    """
    name, _, rest = spec.partition(":")
    attribute, _, options = rest.partition(":")
    outside = attribute.isidentifier() and LEARNERS.get(name) is None
    return (f"{name}:{attribute}", options) if outside else (name, rest)


def method_options(name: str) -> dict[str, tuple[str, Any, str]]:
    """The options of a method: name -> (type, default, help)."""
    return options_of(method_class(name))


def options_of(record: type) -> dict[str, tuple[str, Any, str]]:
    """The fields of a class of options: name -> (type, default, help)."""
    hints = get_type_hints(record)
    return {f.name: (_type_name(hints[f.name]), f.default, f.metadata.get("help", "")) for f in fields(record)}


def create_method(spec: str, **options: Any) -> Learner:
    """A method from its name, or from the command line's ``name:option=value,...``; keywords outrank the text.

    >>> create_method("semantic:tau=2", gamma=0.5)
    Semantic(gamma=0.5, ..., tau=2.0)
    """
    from subspan.values import converted  # here: a list of names needs no PyTorch

    name, text = split_spec(spec)
    method = method_class(name)
    known = {f.name: f for f in fields(method)}  # type: ignore[arg-type]
    hints = get_type_hints(method)
    given: dict[str, Any] = {}
    key = ""
    for item in filter(None, text.split(",")):
        name_of, equals, value = (piece.strip() for piece in item.partition("="))
        if equals:
            key, given[name_of] = name_of, value
        elif key in hints and _takes_several(hints[key]):
            given[key] += f",{name_of}"  # the values of a tuple have commas between them, as options have
        else:
            raise ValueError(f"an option reads name=value; got '{item}' in '{spec}'")
    given = {_present_name(method, key): value for key, value in (given | options).items()}
    for key in given:
        if key not in known:
            offered = ", ".join(known) or "none"
            raise ValueError(f"method '{name}' has no option '{key}'; its options are {offered}")
    return method(**{k: converted(f"option '{k}' of method '{name}'", v, hints[k]) for k, v in given.items()})


def spec_of(method: Learner) -> str:
    """The shortest ``name:option=value,...`` that makes this method.

    >>> spec_of(create_method("subspace:basis=qr,gamma=1.0"))
    'subspace:basis=qr'
    """
    changed = []
    for f in fields(method):  # type: ignore[arg-type]
        value = getattr(method, f.name)
        if f.default is MISSING or value != f.default:
            changed.append(f"{f.name}={_text(value)}")
    path = f"{type(method).__module__}:{type(method).__qualname__}"
    entry = LEARNERS.found.get(method.name)  # what this program alone has registered, another would not find by name
    name = method.name if entry is not None and entry.path == path else path
    return name + (":" + ",".join(changed) if changed else "")


def _present_name(method: type[Learner], option: str) -> str:
    """The name of an option, which may have had another one in version 0.1."""
    present = method.renamed_options.get(option)
    if present is not None:
        text = f"option '{option}' of method '{method.name}' is '{present}' now; the old name goes in version 0.4"
        warnings.warn(text, DeprecationWarning, stacklevel=3)
    return present or option


def _text(value: Any) -> str:
    """An option's value as `create_method` reads it back."""
    if isinstance(value, float) and float(short := f"{value:g}") == value:
        return short
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)


def _takes_several(hint: Any) -> bool:
    return any(get_origin(part) is tuple for part in (hint, *get_args(hint)))


def _type_name(hint: Any) -> str:
    if get_origin(hint) is tuple:
        return "values, with commas between them"
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) is not None:
        return "|".join(map(_type_name, get_args(hint)))
    return {float: "a number", int: "a whole number", bool: "true|false", str: "text", NoneType: "none"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )
