"""Command-line options made from frozen dataclasses, so that a flag exists once: beside its default and its help text.

    @with_flags(recipe=Recipe, runtime=Runtime)
    def train(data: Path, *, recipe: Values, runtime: Values) -> None: ...

gives ``train`` one option per field of both classes. What the user left out is left out of the dictionaries, so that
``overridden(RECIPES[name], **recipe)`` takes the recipe's value. With ``shown=("epochs",)`` the other fields are set by
``--set FIELD=VALUE``.
"""

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

Values = dict[str, Any]
Command = Callable[..., None]

_TEXTS: dict[Any, tuple[str, Callable[[str], Any]]] = {  # how texts are read
    bool: ("true or false", {"true": True, "false": False}.__getitem__),
    int: ("a whole number", int),
    float: ("a number", float),
}
SET = "set_values"  # the parameter of --set
_SET_OPTION = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="any other value of a recipe (`subspan recipes`); repeatable"),
]


def with_flags(*, shown: Collection[str] | None = None, **classes: type) -> Callable[[Command], Command]:
    """Replace the named parameters of a command by one option per field of their dataclasses.

    A field with ``metadata={"help": ...}`` becomes an option, any other field does not. Fields that are not ``shown``,
    if any are, go by ``--set``; options of their own, which version 0.1 had, are understood until version 0.4.
    """

    def decorate(command: Command) -> Command:
        owner: dict[str, tuple[str, Any]] = {}
        options: list[inspect.Parameter] = []
        for parameter, cls in classes.items():
            hints = get_type_hints(cls)
            for field in explained_fields(cls):
                if field.name in owner:
                    raise ValueError(f"option {field.name!r} belongs to {owner[field.name][0]!r} and to {parameter!r}")
                owner[field.name] = parameter, hints[field.name]
                options.append(_option(field, hints[field.name], hidden=shown is not None and field.name not in shown))

        @functools.wraps(command)
        def run(**given: Any) -> None:
            values: dict[str, Values] = {parameter: {} for parameter in classes}
            chosen = {name: value for name in owner if (value := given.pop(name)) is not None}
            written = {name: _flag(name) for name in chosen}
            if shown is not None:
                old = [f"--set {name}={_text(value)}" for name, value in chosen.items() if name not in shown]
                if old:
                    warnings.warn(f"options of their own go in version 0.4; write {' '.join(old)}", stacklevel=2)
                texts = _split(given.pop(SET), owner)
                chosen, written = chosen | texts, written | {name: f"--set {name}" for name in texts}
            for name, value in chosen.items():
                parameter, hint = owner[name]
                values[parameter][name] = _converted(written[name], value, hint)
            command(**given, **values)

        own = [p for p in inspect.signature(command).parameters.values() if p.name not in classes]
        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        if shown is not None:
            own.append(inspect.Parameter(SET, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_SET_OPTION))
        setattr(run, "__signature__", inspect.Signature([*own, *options]))  # noqa: B010 (functions declare no such name)
        run.__annotations__ = {p.name: p.annotation for p in [*own, *options]}
        return run

    return decorate


def explained_fields(cls: type) -> "list[dataclasses.Field[Any]]":
    """The fields that users may set: those with a help text."""
    return [field for field in dataclasses.fields(cls) if "help" in field.metadata]


def given_options(context: typer.Context, values: Values) -> dict[str, str]:
    """The parameters that were given, as options or, ``values`` among them, by ``--set``: name -> how it is written."""
    own = {
        str(parameter.name): parameter.opts[0]
        for parameter in context.command.params
        if (origin := context.get_parameter_source(str(parameter.name))) is not None and origin.name == "COMMANDLINE"
    }
    own.pop(SET, None)
    return own | {name: f"--set {name}" for name in values if name not in own}


def _split(words: Sequence[str] | None, known: Collection[str]) -> dict[str, str]:
    """The texts of ``--set NAME=VALUE``."""
    values = {}
    for word in words or ():
        name, equals, values[name] = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"--set reads NAME=VALUE, got {word!r}")
        if name not in known:
            raise typer.BadParameter(f"--set knows no {name!r}; it knows {', '.join(known)}")
    return values


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _option(field: "dataclasses.Field[Any]", hint: Any, *, hidden: bool) -> inspect.Parameter:
    flag = _flag(field.name)
    kind: Any = hint
    metavar = None
    if hint is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    elif get_origin(hint) in (Literal, tuple):
        kind = str
        metavar = "|".join(get_args(hint)) if get_origin(hint) is Literal else None
    shown = _shown(field.default)
    text = f"{field.metadata['help']}; {shown}" if shown else field.metadata["help"]
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            kind | None, typer.Option(flag, help=text, metavar=metavar, show_default=False, hidden=hidden)
        ],
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(default: Any) -> str:
    if default is dataclasses.MISSING or default is None or default == ():
        return ""
    if isinstance(default, tuple):
        return "default " + ",".join(f"{v:.4g}" for v in default)
    if isinstance(default, bool):
        return "default on" if default else "default off"
    return f"default {default}"


def _converted(name: str, value: Any, hint: Any) -> Any:
    """A value, or its text, in the type of its field."""
    if get_origin(hint) is Literal and value not in get_args(hint):
        raise typer.BadParameter(f"{name} must be one of {', '.join(get_args(hint))}, got {value!r}")
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        try:
            return tuple(kind(part) for part in value.split(",") if part.strip())
        except ValueError:
            raise typer.BadParameter(f"{name} takes numbers with commas between them, got {value!r}") from None
    if not isinstance(value, str) or hint not in _TEXTS:
        return value
    what, read = _TEXTS[hint]
    try:
        return read(value)
    except (KeyError, ValueError):
        raise typer.BadParameter(f"{name} takes {what}, got {value!r}") from None
