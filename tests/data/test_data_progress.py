"""The progress bar: silent for short work, visible for long work, never where nobody can see it."""

import io

import pytest
from rich.console import Console

from subspan.data.progress import progress_bar


def shown(patience: float, enabled: bool = True, terminal: bool = True) -> str:
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=100)
    with progress_bar("decoding images", 40, enabled, patience, console) as advance:
        for _ in range(4):
            advance(10)
    return output.getvalue()


def test_long_work_shows_what_and_how_much():
    text = shown(patience=0.0)
    assert "decoding images" in text
    assert "40/40" in text


@pytest.mark.parametrize("options", [{"patience": 60.0}, {"patience": 0.0, "enabled": False}])
def test_short_or_silenced_work_shows_nothing(options):
    assert shown(**options) == ""


def test_a_log_file_gets_nothing():
    assert shown(patience=0.0, terminal=False) == ""


def test_the_bar_goes_away_when_the_work_fails():
    console = Console(file=io.StringIO(), force_terminal=True)

    def fail() -> None:
        with progress_bar("work", 2, True, 0.0, console) as advance:
            advance()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    console.print("the terminal is free again")
    assert console.file.getvalue().endswith("the terminal is free again\n")  # type: ignore[attr-defined]
