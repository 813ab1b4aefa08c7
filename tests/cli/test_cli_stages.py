"""What long work shows of itself, in a terminal and in a file."""

import io

import numpy as np
import pytest
from made_up_features import made_up_arrays
from rich.console import Console

from subspan.cli import stages
from subspan.cli.stages import SessionProgress


def shown(monkeypatch, every: float, *, terminal: bool, total: int | None = 8) -> str:
    monkeypatch.setattr(stages, "LINE_EVERY", every)
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=100)
    with SessionProgress(console) as bar:
        task = bar.add_task("sessions", total=total)
        bar.advance(task)
        bar.advance(task, 2)
        bar.update(task, completed=8)
    return written.getvalue()


@pytest.mark.parametrize(
    ("total", "told"), [(8, ["1 of 8", "3 of 8", "8 of 8"]), (None, ["1", "3", "8"])], ids=["known", "unknown"]
)
def test_a_file_gets_a_line_for_each_time_the_work_went_on(monkeypatch, total, told):
    lines = shown(monkeypatch, 0.0, terminal=False, total=total).splitlines()
    assert [line.split(",")[0] for line in lines] == [f"sessions: {count}" for count in told]
    assert all("0:00:00 so far" in line for line in lines)


def test_short_work_leaves_a_file_without_lines(monkeypatch):
    assert shown(monkeypatch, 60.0, terminal=False) == ""


def test_a_terminal_gets_a_bar_and_no_lines(monkeypatch):
    written = shown(monkeypatch, 0.0, terminal=True)
    assert "sessions" in written
    assert "so far" not in written


def test_a_line_says_how_long_it_will_take_still():
    console = Console(file=io.StringIO(), force_terminal=False)
    now = 0.0
    bar = SessionProgress(console)
    bar.get_time = lambda: now
    task = bar.add_task("episodes", total=4000)
    for now in (60.0, 120.0, 180.0):  # noqa: B007 (the bar's clock reads it)
        bar.advance(task, 500)
    assert stages._line(bar.tasks[0]) == "episodes: 1,500 of 4,000, 0:03:00 so far, 0:05:00 left"


def test_sessions_are_counted_to_their_end(subspan, monkeypatch, tmp_path):
    monkeypatch.setattr(stages, "LINE_EVERY", 0.0)
    np.savez(tmp_path / "split.npz", **made_up_arrays(0, 7, support_images=5))
    flags = ("--ways", 3, "--shots", 2, "--workers", 1)
    status, _, error = subspan("bench", tmp_path / "split.npz", "--method", "prototype", "--method", "subspace", *flags)
    assert status == 0, error
    counts = [line.split(",")[0] for line in error.splitlines() if line.startswith("sessions: ")]
    # Two methods with and without memory, three sessions each (the last with one class alone).
    assert counts[-1] == "sessions: 12 of 12"
    assert all(count.endswith(" of 12") for count in counts)
    assert len(counts) > 4
