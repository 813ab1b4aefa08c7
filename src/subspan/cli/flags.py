"""Command-line options made from frozen dataclasses, so that a flag exists once: beside its default and its help text.

    @with_flags(recipe=Recipe, runtime=Runtime)
    def train(data: Path, *, recipe: Values, runtime: Values) -> None: ...

gives ``train`` one option per field of both classes. What the user left out is left out of the dictionaries, so that
``overridden(RECIPES[name], **recipe)`` takes the recipe's value.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

Values = dict[str, Any]
Command = Callable[..., None]


def with_flags(**classes: type) -> Callable[[Command], Command]:
    """Replace the named parameters of a command by one option per field of their dataclasses.

    A field with ``metadata={"help": ...}`` becomes an option, any other field does not.
    """

    def decorate(command: Command) -> Command:
        owner: dict[str, tuple[str, Any]] = {}
        options: list[inspect.Parameter] = []
        for parameter, cls in classes.items():
            hints = get_type_hints(cls)
            for field in dataclasses.fields(cls):
                if "help" not in field.metadata:
                    continue
                if field.name in owner:
                    raise ValueError(f"option {field.name!r} belongs to {owner[field.name][0]!r} and to {parameter!r}")
                owner[field.name] = parameter, hints[field.name]
                options.append(_option(field, hints[field.name]))

        @functools.wraps(command)
        def run(**given: Any) -> None:
            values: dict[str, Values] = {parameter: {} for parameter in classes}
            for name, (parameter, hint) in owner.items():
                value = given.pop(name)
                if value is not None:
                    values[parameter][name] = _converted(name, value, hint)
            command(**given, **values)

        own = [p for p in inspect.signature(command).parameters.values() if p.name not in classes]
        own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
        setattr(run, "__signature__", inspect.Signature([*own, *options]))  # noqa: B010 (functions declare no such name)
        run.__annotations__ = {p.name: p.annotation for p in [*own, *options]}
        return run

    return decorate


def _option(field: "dataclasses.Field[Any]", hint: Any) -> inspect.Parameter:
    flag = "--" + field.name.replace("_", "-")
    kind: Any = hint
    if hint is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    elif get_origin(hint) in (Literal, tuple):
        kind = str
    shown = _shown(field.default)
    text = f"{field.metadata['help']}; {shown}" if shown else field.metadata["help"]
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, typer.Option(flag, help=text, show_default=False)],
    )


def _shown(default: Any) -> str:
    if default is dataclasses.MISSING or default is None or default == ():
        return ""
    if isinstance(default, tuple):
        return "default " + ",".join(f"{v:.4g}" for v in default)
    if isinstance(default, bool):
        return "default on" if default else "default off"
    return f"default {default}"


def _converted(name: str, value: Any, hint: Any) -> Any:
    flag = "--" + name.replace("_", "-")
    if get_origin(hint) is Literal and value not in get_args(hint):
        raise typer.BadParameter(f"{flag} must be one of {', '.join(get_args(hint))}, got {value!r}")
    if get_origin(hint) is tuple:
        kind = get_args(hint)[0]
        try:
            return tuple(kind(part) for part in value.split(",") if part.strip())
        except ValueError:
            raise typer.BadParameter(f"{flag} takes numbers with commas between them, got {value!r}") from None
    return value
