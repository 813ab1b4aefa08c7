"""Progress in a terminal: of work through named stages, once it has lasted two seconds, and of sessions."""

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from subspan.data.progress import PATIENCE


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


def session_progress(console: Console) -> Progress:
    """A bar that counts sessions and is gone when all are done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
