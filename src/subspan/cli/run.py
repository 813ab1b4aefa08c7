"""``subspan run``: an experiment in one file, each table of which is a command with its options."""

import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from subspan.cli import COMMANDS, load
from subspan.experiments.inputs import ProtocolError

STEPS = ("train", "extract", "pack", "convert", "sweep", "bench", "show")  # what a file may have, as it is run
ARGUMENTS = "arguments"


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The experiment (.toml).")],
    ray: Annotated[bool, typer.Option("--ray", help="Fan out over a Ray cluster what can be.")] = False,
    workers: Annotated[int | None, typer.Option(help="Processes of what can have several.")] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Print the commands only.")] = False,
) -> None:
    """Run an experiment that a file describes: each of its tables is a command, each key an option of it.

    Tables run in the order train, extract, pack, convert, sweep, bench, show; `[[bench]]` may stand several times.
    `arguments` are what a command takes without a flag, all other keys its flags without the dashes. So results, and
    their hashes, are those of the flags. A method with options is its text, or {name = "semantic", tau = 2}.

    The same command goes on where it was stopped: results of bench are kept in a folder beside the file.

    Example: subspan run experiment.toml
    """
    for words in commands(file, {"ray": ray, "workers": workers}):
        typer.echo(shlex.join(["subspan", *words]), err=True)
        if not dry:
            load(COMMANDS[words[0]][1], words[0]).main(words[1:], f"subspan {words[0]}", standalone_mode=False)


def commands(file: Path, everywhere: Mapping[str, Any]) -> list[list[str]]:
    """The commands of a file, as one types them; ``everywhere`` holds options for each that has them."""
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ProtocolError(f"'{file}' is no experiment in TOML: {error}") from error
    if unknown := [name for name in tables if name not in STEPS]:
        raise ProtocolError(f"'{file}' has '{unknown[0]}'; an experiment has tables of {', '.join(STEPS)}")
    if not tables:
        raise ProtocolError(f"'{file}' is empty; an experiment has tables of {', '.join(STEPS)}")
    found = []
    for name in (name for name in STEPS if name in tables):
        for number, table in enumerate(tables[name] if isinstance(tables[name], list) else [tables[name]]):
            if not isinstance(table, dict):
                raise ProtocolError(f"'{name}' of '{file}' must be a table [{name}] of options")
            usual = {"keep": str(file.with_suffix("") / f"bench-{number}")} if name == "bench" else {}
            if name == "train" and any(Path(str(table.get("out", "runs"))).rglob("checkpoint.safetensors")):
                usual = {"resume": True}
            found.append([name, *_words(name, {**usual, **everywhere, **table}, optional={*usual, *everywhere})])
    return found


def _words(command: str, options: Mapping[str, Any], optional: set[str]) -> list[str]:
    """The options of a table as a command reads them; those that are ``optional`` are left out where it has none."""
    known = {
        flag: one for one in load(COMMANDS[command][1], command).params for flag in (*one.opts, *one.secondary_opts)
    }
    words, arguments = [], []
    for name, value in options.items():
        flag, values = f"--{name.replace('_', '-')}", value if isinstance(value, list) else [value]
        texts = [_text(one) for one in values]
        if name == ARGUMENTS:
            arguments = texts
        elif flag not in known:
            if name not in optional:
                raise ProtocolError(f"`subspan {command}` has no option {flag}; see `subspan {command} --help`")
        elif getattr(known[flag], "is_flag", False):
            off = known[flag].secondary_opts or [""]
            words += [flag] if value else [off[0]] if off[0] and name not in optional else []
        elif value is not None:
            several = getattr(known[flag], "multiple", False)
            words += [word for text in (texts if several else [",".join(texts)]) for word in (flag, text)]
    return [*words, *arguments]


def _text(value: Any) -> str:
    """A value as the command line has it."""
    if isinstance(value, dict):
        options = {key: one for key, one in value.items() if key != "name"}
        return ":".join(
            filter(None, [str(value.get("name", "")), ",".join(f"{k}={_text(v)}" for k, v in options.items())])
        )
    return str(value).lower() if isinstance(value, bool) else str(value)
