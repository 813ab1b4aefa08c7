"""The one table model of every report: rows of cells, by column. ``render`` shows a table in five forms."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from subspan.arrays import FloatArray
from subspan.experiments.metrics import paired_tests

FEWEST = 5  # samples that a mark of the best needs


@dataclass(frozen=True)
class Column:
    """One column of numbers."""

    key: str  # its name in csv files
    title: str
    meaning: str  # one phrase, for legends and tool tips
    group: str = ""  # neighbouring columns of one group form one printed table
    decimals: int = 2


@dataclass(frozen=True)
class Cell:
    """One number; NaN where there is none."""

    value: float = np.nan
    half_width: float = np.nan  # of the 95 % interval
    top: bool = False  # the best of its column, or not significantly worse
    mark: str = ""  # a sign after the number; a note of the table says what it means


EMPTY = Cell()


@dataclass(frozen=True)
class Row:
    """One line: what it is about, its numbers, and the block of lines it belongs to."""

    headings: tuple[str, ...]
    cells: Mapping[str, Cell]  # by key of the column; what is not there is empty
    block: str = ""

    def __getitem__(self, key: str) -> Cell:
        return self.cells.get(key, EMPTY)


@dataclass(frozen=True)
class Table:
    """Rows of ``headings`` and one cell per column."""

    headings: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    title: str = ""
    notes: tuple[str, ...] = ()
    legend: tuple[str, ...] = ()  # notes that are the same for all tables of their kind: pages say them once
    name: str = "table"  # of its files, without ending

    @property
    def said(self) -> tuple[str, ...]:
        """What stands below the table."""
        return (*self.notes, *self.legend)

    def column_groups(self) -> Iterator[tuple[str, list[Column]]]:
        """Name and columns of each group."""
        for name, members in groupby(self.columns, key=lambda column: column.group):
            yield name, list(members)

    def row_blocks(self) -> Iterator[list[Row]]:
        """The rows of each block."""
        for _, members in groupby(self.rows, key=lambda row: row.block):
            yield list(members)


def bold_note(samples: int, of: str) -> list[str]:
    """What stands below a table of methods of so many samples about its bold numbers."""
    if samples < FEWEST:
        return [f"No number is bold: of fewer than {FEWEST} draws or splits a test says little."] * (samples > 1)
    return [
        f"Bold: the best of {of}, or not significantly different from it (paired t-test, p < 0.05 after Bonferroni "
        "correction)."
    ]


def not_below_best(samples: Sequence[FloatArray]) -> list[bool]:
    """Which of several paired samples (n,) have the highest mean or are not significantly below it.

    Paired t-tests, p < 0.05 after Bonferroni correction. None of fewer than `FEWEST` samples, whose tests find hardly
    any difference, nor where nothing can be tested: one method, or methods that are the same number apart in all.
    """
    if any(len(sample) < FEWEST for sample in samples) or not all(np.isfinite(sample).all() for sample in samples):
        return [False] * len(samples)
    tests = paired_tests({str(i): sample for i, sample in enumerate(samples)}).values()
    tested = any(np.isfinite(test.p_value) for test in tests if not test.best)
    return [tested and test.not_below for test in tests]
