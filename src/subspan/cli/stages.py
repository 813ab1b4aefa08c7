"""Progress of work through named stages, in a terminal once it has lasted two seconds, and of sessions, anywhere."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from subspan.data.progress import PATIENCE

LINE_EVERY = 30.0  # seconds between lines where there is no terminal


@contextlib.contextmanager
def shown_stages(console: Console | None = None) -> Iterator[Callable[[str, int, int], None]]:
    """Gives a function of stage, done and total; bars go to standard error and vanish at the end."""
    console = console or Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    bar = Progress(*columns, TimeRemainingColumn(), transient=True, console=console)
    tasks = {}
    begin = time.monotonic()

    def tell(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage, total=total)
        bar.update(tasks[stage], completed=done, total=total)
        # A stage of one step says nothing while it lasts: show it from its start.
        lasting = time.monotonic() - begin >= PATIENCE or (total == 1 and done == 0)
        if lasting and not bar.live.is_started and (console.is_terminal or console.is_jupyter):
            bar.start()

    try:
        yield tell
    finally:
        if bar.live.is_started:
            bar.stop()


class SessionProgress(Progress):
    """A bar that counts sessions and is gone when all are done; where output is no terminal, a line now and then."""

    def __init__(self, console: Console) -> None:
        self._lines = not (console.is_terminal or console.is_jupyter)
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            speed_estimate_period=600,  # one step of a slow system may last longer than the usual 30 s
            disable=self._lines,
        )
        self._last_line = time.monotonic()

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        """So many more are done."""
        super().advance(task_id, advance)
        self._tell(task_id)

    def update(self, task_id: TaskID, **values: Any) -> None:
        """Change what is shown of a task."""
        super().update(task_id, **values)
        self._tell(task_id)

    def _tell(self, task_id: TaskID) -> None:
        if self._lines and time.monotonic() - self._last_line >= LINE_EVERY:
            self._last_line = time.monotonic()
            self.console.print(_line(self._tasks[task_id]), highlight=False, soft_wrap=True)


def _line(task: Task) -> str:
    """What a bar would show, in words."""
    count = f"{task.completed:,.0f}" + ("" if task.total is None else f" of {task.total:,.0f}")
    times = [f"{_clock(task.elapsed)} so far"] if task.elapsed is not None else []
    times += [f"{_clock(task.time_remaining)} left"] if task.time_remaining else []
    return ", ".join([f"{task.description}: {count}", *times])


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
