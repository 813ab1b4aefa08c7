"""A progress bar that shows itself only when the work lasts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PATIENCE = 2.0  # seconds of silence before the bar appears


class Advance(Protocol):
    """Says that ``count`` more things are done."""

    def __call__(self, count: int = 1) -> None: ...


@contextmanager
def progress_bar(
    description: str,
    total: int,
    enabled: bool = True,
    patience: float = PATIENCE,
    console: Console | None = None,
) -> Iterator[Advance]:
    """Gives a function that counts; the bar appears once the work has lasted ``patience`` seconds, if ``enabled``.

    It is written to standard error, so that what a command prints stays clean, and only where somebody can see it: in a
    terminal or a notebook.
    """
    console = console or Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, transient=True, console=console)
    task = bar.add_task(description, total=total)
    visible = enabled and (console.is_terminal or console.is_jupyter)
    begin, shown = time.monotonic(), False

    def advance(count: int = 1) -> None:
        nonlocal shown
        bar.advance(task, count)
        if visible and not shown and time.monotonic() - begin >= patience:
            shown = True
            bar.start()

    try:
        yield advance
    finally:
        if shown:
            bar.stop()
