"""Published numbers of both protocols, each with where it was read: ``published.json``.

Nothing here was measured by us. ``P`` marks the tables of the subspace paper, which quotes Tao, Chen and Cheraghian;
the other marks say how far a row of a later system was checked.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from subspan.experiments.report.tables import Cell, Column, Row, Table

VALUES = Path(__file__).with_name("published.json")
MULTI_SESSION, SINGLE_SESSION = PROTOCOLS = "multi-session", "single-session"
PUBLISHED, QUOTED, OURS = "published", "quoted", "ours"  # what tables call a row
STORED = "ours, stored"  # not run now: of a system that needs images
RELEASED = "as released"  # by the rule of a system's released code, where ours is another one


Rows = tuple["PublishedRow", ...]


@dataclass(frozen=True)
class PublishedRow:
    """Accuracy (%) on all classes seen after each of some sessions; NaN where it was not published."""

    model: str
    accuracy: tuple[float, ...]
    source: str  # a key of Published.sources
    sessions: tuple[int, ...] = tuple(range(9))
    method: str | None = None  # ours of the same name, with options; None for a row only quoted
    systems: tuple[str, ...] = ()  # ours of the same system
    memory: bool | None = None  # the paper's setting: one example per earlier class is kept, or none
    stored: str = ""  # what a later system keeps, where it keeps something
    network: str = ""
    average: float = math.nan  # as published; NaN where only the sessions were
    base: float = math.nan  # after the last session
    novel: float = math.nan

    @property
    def cells(self) -> dict[str, Cell]:
        """By column: every session, and over all of them what is known or follows."""
        average = sum(self.accuracy) / len(self.accuracy) if math.isnan(self.average) else self.average
        known = {f"session_{session}": value for session, value in zip(self.sessions, self.accuracy, strict=True)}
        known |= {"base": self.base, "novel": self.novel, "average": average}
        return {key: Cell(value) for key, value in (known | {"drop": self.accuracy[0] - self.accuracy[-1]}).items()}


@dataclass(frozen=True)
class PublishedNetwork:
    """Validation accuracy (%) of one network by seed."""

    model: str
    recipe: str  # ours with the same network: the first part of a feature file's name
    validation: list[float]
    mean: float
    source: str


@dataclass(frozen=True)
class PublishedEpisodes:
    """One line of the single-session table."""

    model: str
    source: str  # a key of Published.sources; "P" for the paper's own methods
    system: str  # ours of the same system, if there is one
    cells: Mapping[str, Mapping[str, Cell]]  # by data set (mini, tiered) and column: accuracy_5_shot, delta_5_shot


@dataclass(frozen=True)
class Published:
    """All tables; ``sources`` says what each source mark means."""

    sources: Mapping[str, str]
    main: Rows  # sessions 1, 2, 8, both memory settings
    without_memory: Rows
    with_memory: Rows
    old_penalty: Rows
    fixed_split: Rows  # another protocol
    networks: tuple[PublishedNetwork, ...]
    single_session: tuple[PublishedEpisodes, ...]

    def row(self, method: str, memory: bool, *tables: Rows) -> PublishedRow | None:
        """The row of one of our methods in the first of the tables that has it."""
        rows = (row for table in tables for row in table if (row.method, row.memory) == (method, memory))
        return next(rows, None)

    @property
    def curves(self) -> dict[tuple[str, bool], tuple[float, ...]]:
        """Accuracies over all sessions by method of ours and memory, for pictures."""
        rows = (*self.without_memory, *self.with_memory)
        return {(row.method, bool(row.memory)): row.accuracy for row in rows if row.method}


def meanings(name: str) -> list[str]:
    """What the words of a page's tables and the marks of sources mean, a line for each."""
    lines = [line.strip("| ").split(" | ", 1) for line in page_text(name).splitlines() if line.startswith("| ")]
    return [f"{word}: {meaning}." for word, meaning in (*lines[1:], *published().sources.items())]


def other_sets() -> list[Table]:
    """Published rows of data that ours cannot be measured on here, with blanks where ours would be."""
    tables = []
    for record in json.loads(VALUES.with_name("other_sets.json").read_text("utf-8")):
        count = len(record["rows"][0]["accuracy"])
        columns = [Column(f"session_{n}", str(n), f"after session {n}") for n in range(count)]
        rows = [
            Row((row["model"], row["network"], row["source"]), one.cells, PUBLISHED)
            for row, one in zip(record["rows"], _table({**record, "sessions": range(count)}), strict=True)
        ]
        note = (
            "Ours is blank: the images are not here. With them, `subspan train --split fixed --data FOLDER --out RUN` "
            "and `subspan pack --run RUN --data FOLDER --out FILE.npz` make the features for `subspan bench FILE.npz`."
        )
        columns.append(Column("average", "average", "over all sessions, as published"))
        rows.append(Row(("any method", "your own", OURS), {}, OURS))
        tables.append(Table(("system", "network", "source"), tuple(columns), tuple(rows), record["title"], (note,)))
    return tables


def page_text(name: str) -> str:
    """What opens a generated page of the manual."""
    return resources.files("subspan.paper").joinpath("text", f"{name}.md").read_text("utf-8")


@cache
def published() -> Published:
    """The numbers that come with the package.

    >>> published().without_memory[3].model, published().without_memory[3].accuracy[-1]
    ('Subspace', 46.79)
    """
    data = json.loads(VALUES.read_text("utf-8"))
    names = ("main", "without_memory", "with_memory", "old_penalty", "fixed_split")
    return Published(
        data["sources"],
        *(_table(data[name]) for name in names),
        networks=tuple(PublishedNetwork(**row) for row in data["networks"]["rows"]),
        single_session=tuple(map(_episodes, data["single_session"]["rows"])),
    )


def _table(data: Mapping[str, Any]) -> Rows:
    rows = []
    for row in data["rows"]:
        accuracy = tuple(math.nan if value is None else float(value) for value in row["accuracy"])
        tuples = {"accuracy": accuracy, "systems": tuple(row.get("systems", ())), "sessions": tuple(data["sessions"])}
        rows.append(PublishedRow(**{**row, **tuples}))
    return tuple(rows)


def _episodes(row: Mapping[str, Any]) -> PublishedEpisodes:
    cells: dict[str, dict[str, Cell]] = {"mini": {}, "tiered": {}}
    for data, of_data in cells.items():
        for shots, (accuracy, half_width, delta, *bold) in row[data].items():  # bold: not below the best, as printed
            of_data[f"accuracy_{shots}_shot"] = Cell(float(accuracy), float(half_width), top=bool(bold))
            of_data[f"delta_{shots}_shot"] = Cell(float(delta))
    return PublishedEpisodes(row["model"], row["source"], row.get("system", ""), cells)
