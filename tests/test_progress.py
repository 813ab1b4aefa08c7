"""What long work shows of itself, in a terminal and in a file."""

import io

import pytest
from rich.console import Console

from subspan import progress
from subspan.progress import Progress, shown_stages


@pytest.fixture
def shown(monkeypatch):
    """What work of eight parts writes."""

    def show(*, patience: float = 0.0, every: float = 0.0, terminal: bool, total: int | None = 8, silent: bool = False):
        monkeypatch.setattr(progress, "PATIENCE", patience)
        monkeypatch.setattr(progress, "LINE_EVERY", every)
        console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
        with Progress(console, show=not silent) as bars:
            task = bars.add_task("sessions", total=total)
            bars.advance(task)
            bars.advance(task, 2)
            bars.update(task, completed=8)
        return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]

    return show


@pytest.mark.parametrize(
    ("total", "told"), [(8, ["1 of 8", "3 of 8", "8 of 8"]), (None, ["1", "3", "8"])], ids=["known", "unknown"]
)
def test_a_file_gets_a_line_for_each_time_the_work_went_on(shown, total, told):
    lines = shown(terminal=False, total=total).splitlines()
    assert [line.split(",")[0] for line in lines] == [f"sessions: {count}" for count in told]
    assert all("0:00:00 so far" in line for line in lines)


def test_a_terminal_gets_a_bar_and_no_lines(shown):
    written = shown(terminal=True)
    assert "sessions" in written
    assert "8/8" in written
    assert "so far" not in written


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("options", [{"patience": 60.0, "every": 60.0}, {"silent": True}])
def test_short_or_silenced_work_shows_nothing(shown, terminal, options):
    assert shown(terminal=terminal, **options) == ""


def test_a_line_says_how_long_it_will_take_still():
    now = 0.0
    bars = Progress(Console(file=io.StringIO(), force_terminal=False))
    bars.get_time = lambda: now
    task = bars.add_task("episodes", total=4000)
    for now in (60.0, 120.0, 180.0):  # noqa: B007 (the bar's clock reads it)
        bars.advance(task, 500)
    assert progress._line(bars.tasks[0]) == "episodes: 1,500 of 4,000, 0:03:00 so far, 0:05:00 left"


def test_the_bar_goes_away_when_the_work_fails(monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    console = Console(file=io.StringIO(), force_terminal=True)

    def fail() -> None:
        with shown_stages(console) as tell:
            tell("work", 1, 2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    console.print("the terminal is free again")
    written = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "work" in written
    assert written.endswith("the terminal is free again\n")


def test_a_stage_of_one_step_is_shown_from_its_start():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with shown_stages(console) as tell:
        tell("loading", 0, 8)
        assert console.file.getvalue() == ""  # pyright: ignore[reportAttributeAccessIssue]
        tell("deciding", 0, 1)
        assert "deciding" in console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
