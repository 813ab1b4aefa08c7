"""What a run tells: a progress bar for people, a CSV file and TensorBoard records for later."""

import csv
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

COLUMNS: tuple[str, ...] = ("epoch", "rate", "loss", "accuracy", "validation", "images_per_second", "seconds")
_LINE_EVERY = 10.0  # seconds between lines where there is no terminal


class CsvLog:
    """One row per epoch; rows of epochs that a resumed run repeats are dropped."""

    def __init__(self, path: Path, first_epoch: int) -> None:
        self._path = path
        self.seconds = 0.0  # of all epochs in the file
        self.best_rate = 0.0  # images per second
        kept: list[dict[str, str]] = []
        if first_epoch > 0 and path.exists():
            with path.open(newline="") as file:
                kept = [row for row in csv.DictReader(file) if int(row["epoch"]) < first_epoch]
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(kept)
        for row in kept:
            self._count(row)

    def write(self, row: dict[str, Any]) -> None:
        """Append one epoch."""
        self._count(row)
        with self._path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS).writerow(row)

    def _count(self, row: Mapping[str, Any]) -> None:
        self.seconds += float(row["seconds"])
        self.best_rate = max(self.best_rate, float(row["images_per_second"]))


class TensorBoardLog:
    """The same numbers as TensorBoard scalars, where the package is there; else one warning and nothing."""

    def __init__(self, folder: Path, first_epoch: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except (ImportError, RuntimeError):
            warnings.warn("no TensorBoard records: install subspan[train]", stacklevel=2)
            self._writer = None
        else:
            self._writer = SummaryWriter(str(folder), purge_step=first_epoch)

    def write(self, row: dict[str, Any]) -> None:
        """Record one epoch."""
        if self._writer is None:
            return
        for name in COLUMNS[1:]:
            if row.get(name) not in (None, ""):
                self._writer.add_scalar(name, float(row[name]), int(row["epoch"]))
        self._writer.flush()


class Bar:
    """A bar with loss, accuracy, images per second and time left; plain lines where output is no terminal."""

    def __init__(self, total_steps: int, done: int, *, show: bool = True) -> None:
        self._console = Console(stderr=True)
        self._lines = show and not self._console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>5.1f}%"),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not show or self._lines,
        )
        self._task = self._progress.add_task("training", total=total_steps, completed=done, numbers="")
        self._last_line = 0.0

    def __enter__(self) -> "Bar":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def advance(self, steps: int) -> None:
        """So many more steps."""
        self._progress.advance(self._task, steps)

    def epoch(self, row: dict[str, Any], epochs: int, *, last: bool = False) -> None:
        """Show the numbers of an epoch."""
        left = (epochs - row["epoch"] - 1) * row["seconds"]
        text = f"loss {row['loss']:.3f}  accuracy {row['accuracy']:.1f}%  {row['images_per_second']:,.0f} images/s"
        if row["validation"] != "":
            text += f"  validation {row['validation']:.2f}%"
        self._progress.update(self._task, numbers=text)
        now = time.monotonic()
        if self._lines and (last or row["validation"] != "" or now - self._last_line >= _LINE_EVERY):
            self._last_line = now
            self._console.print(
                f"epoch {row['epoch'] + 1}/{epochs}  {text}  {left:.0f} s left", highlight=False, soft_wrap=True
            )
