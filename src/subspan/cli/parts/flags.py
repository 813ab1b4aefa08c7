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
from collections.abc import Callable, Collection
from importlib import import_module
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

Values = dict[str, Any]
Command = Callable[..., None]
KEYWORD = inspect.Parameter.KEYWORD_ONLY
SET = "set_values"  # the parameter of --set
_SET_OPTION = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="any other value of a recipe (`subspan recipes`); repeatable"),
]


def _import(modules: list[str] | None) -> list[str] | None:
    for module in modules or ():
        try:
            import_module(module)
        except ImportError as error:
            raise ValueError(f"--import {module}: {error}; it must be installed, or on PYTHONPATH") from error
    return modules


ImportOption = Annotated[
    list[str] | None,
    typer.Option(
        "--import", metavar="MODULE", callback=_import, help="Import this first, for methods it registers; repeatable."
    ),
]


def with_flags(*, shown: Collection[str] | None = None, **classes: type) -> Callable[[Command], Command]:
    """Replace the named parameters of a command by one option per field of their dataclasses.

    A field with ``metadata={"help": ...}`` becomes an option, any other field does not; a field of several classes is
    one option, told to all. Fields that are not ``shown``, if any are, go by ``--set``; options of their own, which
    version 0.1 had, are understood until version 0.4.
    """

    def decorate(command: Command) -> Command:
        fields = [
            (parameter, field, get_type_hints(cls)[field.name])
            for parameter, cls in classes.items()
            for field in explained_fields(cls)
        ]
        once = {field.name: (field, hint) for _, field, hint in fields}
        by_set = set() if shown is None else {field.name for _, field, _ in fields}.difference(shown)

        @functools.wraps(command)
        def run(**given: Any) -> None:
            values: dict[str, Values] = {parameter: {} for parameter in classes}
            texts, old = _split(given.pop(SET, None), [field.name for _, field, _ in fields]), []
            told = {field.name: given.pop(field.name) for field, _ in once.values()}
            for parameter, field, hint in fields:
                name, value = field.name, told[field.name]
                if value is not None:
                    values[parameter][name] = _converted(_flag(name), value, hint)
                    old += [f"--set {name}={text_of(value)}"] if name in by_set else []
                if name in texts:
                    values[parameter][name] = _converted(f"--set {name}", texts[name], hint)
            if old:
                warnings.warn(f"options of their own go in version 0.4; write {' '.join(old)}", stacklevel=2)
            command(**given, **values)

        own = [p for p in inspect.signature(command).parameters.values() if p.name not in classes]
        own += [] if shown is None else [inspect.Parameter(SET, KEYWORD, default=None, annotation=_SET_OPTION)]
        own += [_option(field, hint, hidden=field.name in by_set) for field, hint in once.values()]
        signature = inspect.Signature([p.replace(kind=KEYWORD) for p in own])
        setattr(run, "__signature__", signature)  # noqa: B010 (functions declare no such name)
        run.__annotations__ = {p.name: p.annotation for p in own}
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


def _split(words: Collection[str] | None, known: Collection[str]) -> dict[str, str]:
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
    flag = _flag(field.name) + (f"/--no-{_flag(field.name)[2:]}" if hint is bool else "")
    kind = str if get_origin(hint) in (Literal, tuple) else hint
    metavar = "|".join(get_args(hint)) if get_origin(hint) is Literal else None
    default = "" if field.default in (dataclasses.MISSING, None, ()) else f"; default {text_of(field.default)}"
    option = typer.Option(flag, help=field.metadata["help"] + default, metavar=metavar, hidden=hidden)
    annotation = Annotated[kind | None, option]
    return inspect.Parameter(field.name, KEYWORD, default=None, annotation=annotation)


def text_of(value: Any) -> str:
    """A value as ``--set`` reads it."""
    if isinstance(value, tuple):
        return ",".join(map(text_of, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)


def _converted(name: str, value: Any, hint: Any) -> Any:
    from subspan.values import converted  # here: a list of commands needs no PyTorch

    try:
        return converted(name, value, hint)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
