"""Options made from dataclasses: what is given is passed on, by a flag or by ``--set``; wrong words are not."""

from dataclasses import dataclass, field
from typing import Literal

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from subspan.cli.parts.flags import Values, with_flags


@dataclass(frozen=True)
class Oven:
    """An example."""

    brand: str = "hidden"  # no help, no option
    heat: float = field(default=1.5, metadata={"help": "how hot"})
    fan: bool = field(default=False, metadata={"help": "blow"})
    times: tuple[int, ...] = field(default=(1, 2), metadata={"help": "when"})
    mode: Literal["slow", "fast"] = field(default="slow", metadata={"help": "how"})


def bake(*words: str, shown: tuple[str, ...] | None = None) -> tuple[list[Values], Result]:
    """What a command is given, and how it ended."""
    app, seen = typer.Typer(), list[Values]()

    @app.command()
    @with_flags(oven=Oven, shown=shown)
    def bake(name: str, *, oven: Values) -> None:
        """Bake."""
        seen.append({"name": name, **oven})

    return seen, CliRunner().invoke(app, ["bread", *words], env={"COLUMNS": "200", "NO_COLOR": "1"})


@pytest.mark.parametrize(
    ("flags", "settings", "values"),
    [
        ([], [], {}),
        (["--fan"], ["fan=true"], {"fan": True}),
        (["--no-fan", "--heat", "2"], ["heat=2", "fan=false"], {"fan": False, "heat": 2.0}),
        (["--times", "3,4"], ["times=3,4"], {"times": (3, 4)}),
        (["--times", ""], ["times="], {"times": ()}),
        (["--mode", "fast", "--fan"], ["mode=fast", "fan=true"], {"fan": True, "mode": "fast"}),
    ],
)
def test_only_what_is_given_is_passed_on(flags: list[str], settings: list[str], values: Values) -> None:
    expected = [{"name": "bread", **values}]
    assert bake(*flags)[0] == expected
    assert bake(*(word for one in settings for word in ("--set", one)), shown=("brand",))[0] == expected
    if flags:
        with pytest.warns(UserWarning, match=f"version 0.4; write --set .*{settings[-1]}"):
            assert bake(*flags, shown=("brand",))[0] == expected
        assert flags[0] not in bake("--help", shown=("brand",))[1].output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mode", "raw"], "must be one of slow, fast; got 'raw'"),
        (["--times", "x"], "numbers with commas"),
        (["--brand", "b"], "No such option"),
        (["--set", "heat"], "--set reads NAME=VALUE, got 'heat'"),
        (["--set", "heath=2"], "--set knows no 'heath'; it knows heat, fan, times, mode"),
        (["--set", "brand=b"], "--set knows no 'brand'"),
        (["--set", "heat=hot"], "heat must be a number; got 'hot'"),
        (["--set", "fan=on"], "fan must be true or false; got 'on'"),
        (["--set", "mode=raw"], "mode must be one of slow, fast; got 'raw'"),
    ],
)
def test_wrong_words_are_refused(words: list[str], message: str) -> None:
    seen, result = bake(*words, shown=() if words[0] == "--set" else None)
    assert (seen, result.exit_code) == ([], 2)
    assert message in result.output
