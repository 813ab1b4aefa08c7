"""Commands that are listed by what the source of their files says, and imported when they run.

PyTorch and its like take seconds to import: nobody who asks for help, or for another command, should wait for them.
"""

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from pkgutil import iter_modules
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


def lazy_group(owner: str) -> type[TyperGroup]:
    """The class of a group of which functions of this package become commands by ``@owner.command()``.

    ``owner`` is the group's name in `subspan.cli`. Names and keywords are literals there, or names of `subspan.cli`;
    the help text is the function's docstring.
    """

    class LazyGroup(TyperGroup):
        def __init__(self, *, commands: dict[str, Any], **settings: Any) -> None:
            unloaded = {name: _Unloaded(owner, module, name=name, **shown) for module, name, shown in _read(owner)}
            listed = {**unloaded, **commands}
            super().__init__(commands=dict(sorted(listed.items(), key=lambda item: _panel(item[1]))), **settings)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """The command of this name, or of one that it had."""
            return super().get_command(ctx, _named("OTHER_NAMES").get(cmd_name, cmd_name))

    return LazyGroup


class _Unloaded(TyperCommand):
    """What a list of commands shows of one whose file has not been imported."""

    def __init__(self, owner: str, module: str, **shown: Any) -> None:
        super().__init__(**shown)
        self._owner, self._module = owner, module

    def make_context(self, *given: Any, **named: Any) -> Any:
        """The context of the command itself: from here on it is in charge."""
        importlib.import_module(self._module)
        loaded = get_group(_named(self._owner)).commands[str(self.name)]
        return loaded.make_context(*given, **named)


def _panel(command: Any) -> int:
    """Where a command's part of the list stands."""
    parts = _named("PARTS")
    return parts.index(command.rich_help_panel) if command.rich_help_panel in parts else len(parts)


def _read(owner: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Module, name and keywords of every command of a group."""
    for module, function in _functions():
        for decorator in function.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == f"{owner}.command":
                names = [_value(argument) for argument in decorator.args] or [function.name.replace("_", "-")]
                keywords = {str(keyword.arg): _value(keyword.value) for keyword in decorator.keywords}
                yield module, *names, {"help": ast.get_docstring(function), **keywords}


@cache
def _functions() -> list[tuple[str, ast.FunctionDef]]:
    """Every function of this package's files, by module; what editors leave beside them is no module."""
    package = importlib.import_module(str(__package__))
    return [
        (f"{__package__}.{module.name}", node)
        for module in iter_modules(package.__path__)
        for node in ast.parse((resources.files(package) / f"{module.name}.py").read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
    ]


def _value(node: ast.expr) -> Any:
    return _named(node.id) if isinstance(node, ast.Name) else ast.literal_eval(node)


def _named(name: str) -> Any:
    return getattr(importlib.import_module(str(__package__)), name)
