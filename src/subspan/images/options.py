"""What a reader is told beside the path, once for all formats."""

from dataclasses import dataclass
from typing import Literal

Fit = Literal["crop", "squash"]

PARTS = ("train", "val", "test")  # into which a data set of few-shot learning is usually divided


@dataclass(frozen=True)
class ReadOptions:
    """How images are read, whatever their format."""

    size: int | None = 84  # side of the square images; None: as stored, all must agree
    fit: Fit = "crop"  # how images of another shape are fitted: see decode.py
    parts: tuple[str, ...] | None = None  # only these of PARTS, where the data is so divided
    workers: int | None = None  # threads; None: one per core
    progress: bool = True
