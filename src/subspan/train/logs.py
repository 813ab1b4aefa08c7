"""What a run keeps of its epochs: a CSV file and TensorBoard records."""

import csv
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COLUMNS: tuple[str, ...] = ("epoch", "rate", "loss", "accuracy", "validation", "images_per_second", "seconds")


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
