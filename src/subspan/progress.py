"""Progress of long work: bars in a terminal or a notebook once it lasts, elsewhere a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from rich import progress
from rich.console import Console

PATIENCE = 2.0  # seconds of silence before a bar appears
LINE_EVERY = 30.0  # seconds between lines where nobody sees a bar


class Progress(progress.Progress):
    """Bars that are gone when all is done. They go to standard error, so that what a command prints stays clean."""

    def __init__(self, console: Console | None = None, *, show: bool = True) -> None:
        console = console or Console(stderr=True)
        seen = console.is_terminal or console.is_jupyter
        self._bars, self._lines = show and seen, show and not seen
        super().__init__(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
            speed_estimate_period=600,  # one step of a slow system may last longer than the usual 30 s
        )
        self._begun = self._last_line = time.monotonic()

    def __enter__(self) -> "Progress":
        return self  # shows nothing yet

    def stop(self) -> None:
        """Take the bars away, if they have appeared."""
        if self.live.is_started:
            super().stop()

    def advance(self, task_id: progress.TaskID, advance: float = 1) -> None:
        """So many more are done."""
        super().advance(task_id, advance)
        self._tell(self._tasks[task_id])

    def update(self, task_id: progress.TaskID, **values: Any) -> None:
        """Change what is shown of a task."""
        super().update(task_id, **values)
        self._tell(self._tasks[task_id])

    def _tell(self, task: progress.Task) -> None:
        now = time.monotonic()
        if self._bars and not self.live.is_started:
            # A task of one step says nothing while it lasts: show it from its start.
            if now - self._begun >= PATIENCE or (task.total == 1 and task.completed == 0):
                self.start()
        elif self._lines and now - self._last_line >= LINE_EVERY:
            self._last_line = now
            self.console.print(_line(task), highlight=False, soft_wrap=True)


@contextmanager
def progress_bar(description: str, total: int, enabled: bool = True) -> Iterator[Callable[[int], None]]:
    """Gives a function that counts: so many more of ``total`` are done."""
    with Progress(show=enabled) as bars:
        yield partial(bars.advance, bars.add_task(description, total=total))


class Stages:
    """What tells of stage, done, total and, in a training, loss; every stage has a bar."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, progress.TaskID] = {}

    def __call__(self, stage: str, done: int, total: int | None, loss: float | None = None) -> None:
        if stage not in self._tasks:
            self._tasks[stage] = self._bars.add_task(stage, total=total)
        shown = stage if loss is None else f"{stage}, loss {loss:.3f}"
        self._bars.update(self._tasks[stage], completed=done, total=total, description=shown)

    def hide(self) -> None:
        """Take the bars away until there is more to tell, so that a question can be asked."""
        self._bars.stop()


@contextmanager
def shown_stages(console: Console | None = None) -> Iterator[Stages]:
    """Gives what tells of the stages of a long work."""
    with Progress(console) as bars:
        yield Stages(bars)


def _line(task: progress.Task) -> str:
    """What a bar would show, in words."""
    count = f"{task.completed:,.0f}" + ("" if task.total is None else f" of {task.total:,.0f}")
    times = [f"{_clock(task.elapsed)} so far"] if task.elapsed is not None else []
    times += [f"{_clock(task.time_remaining)} left"] if task.time_remaining else []
    return ", ".join([f"{task.description}: {count}", *times])


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
