"""Registries: names of one kind of thing and where each is found, so that listing them imports none of them.

A thing of ours is a decorated class or function in a file of its own, and no edit elsewhere: the file's source says its
name. One from outside is named ``package.module:Class``, or registered by an entry point of its distribution, or by the
same decorator once its module is imported.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from importlib.metadata import entry_points
from typing import Any

from subspan.extras import imported


@dataclass(frozen=True)
class Entry:
    """One registered thing: its name, ``module:attribute``, and what its class says of itself in plain values."""

    name: str
    path: str
    facts: dict[str, Any] = field(default_factory=dict)

    def load(self) -> Any:
        module, _, attribute = self.path.partition(":")
        return getattr(imported(module), attribute)


@dataclass(frozen=True)
class Registry:
    """Things of one kind. ``decorator`` marks them in the files of ``packages``; ``group`` is that of entry points."""

    what: str
    decorator: str
    packages: tuple[str, ...]
    group: str
    added: dict[str, Entry] = field(default_factory=dict)

    @cached_property
    def found(self) -> dict[str, Entry]:
        """What files and entry points hold."""
        ours = {entry.name: entry for package in self.packages for entry in _read(package, self.decorator)}
        theirs = {point.name: Entry(point.name, point.value) for point in entry_points(group=self.group)}
        return {**theirs, **ours}

    def entries(self) -> list[Entry]:
        """All of them, by name."""
        return [entry for _, entry in sorted({**self.found, **self.added}.items())]

    def get(self, name: str) -> Entry | None:
        """The entry of this name, or of ``package.module:Attribute``."""
        module, colon, attribute = name.partition(":")
        if colon and attribute.isidentifier() and all(part.isidentifier() for part in module.split(".")):
            return Entry(name, name)
        return self.added.get(name) or self.found.get(name)

    def add(self, name: str, thing: Any, **facts: Any) -> None:
        """Make a thing known by this name."""
        path, known = f"{thing.__module__}:{thing.__qualname__}", self.added.get(name) or self.found.get(name)
        if known is None:
            said = {key: value for key in ("kind", "summary") if isinstance(value := getattr(thing, key, None), str)}
            self.added[name] = Entry(name, path, {**said, **facts})
        elif known.path != path:
            raise ValueError(f"a {self.what} named '{name}' is registered already: {known.path}")

    def named(self, name: str, **facts: Any) -> Callable[[Any], Any]:
        """Decorate a function to make it known by this name; ``facts`` are what a list of names says of it."""

        def keep(thing: Any) -> Any:
            self.add(name, thing, **facts)
            return thing

        return keep


def _read(package: str, decorator: str) -> Iterator[Entry]:
    """The decorated classes, by their attribute ``name``, and functions, by the decorator's first argument."""
    root, *folders = package.split(".")
    for file in resources.files(root).joinpath(*folders).iterdir():  # found so, a package is not imported
        text = file.read_text("utf-8") if file.name.endswith(".py") else ""
        if f"@{decorator}" not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                for mark in node.decorator_list:
                    called = mark.func if isinstance(mark, ast.Call) else mark
                    if ast.unparse(called) == decorator:
                        facts = _facts(node)
                        if isinstance(mark, ast.Call):
                            facts |= {str(word.arg): ast.literal_eval(word.value) for word in mark.keywords}
                        name = ast.literal_eval(mark.args[0]) if isinstance(mark, ast.Call) else facts["name"]
                        yield Entry(name, f"{package}.{file.name[:-3]}:{node.name}", facts)


def _facts(node: ast.ClassDef | ast.FunctionDef) -> dict[str, Any]:
    """The plain values that the body of a class assigns."""
    facts = {}
    for line in node.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            try:
                facts[line.targets[0].id] = ast.literal_eval(line.value)
            except ValueError:
                continue
    return facts
