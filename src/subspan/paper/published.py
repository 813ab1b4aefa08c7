"""Published numbers of both protocols, each with where it was read: ``published.json``.

Nothing here was measured by us. ``P`` marks the tables of the subspace paper, which quotes Tao, Chen and Cheraghian;
the other marks say how far a row of a later system was checked.
"""

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from subspan.experiments.metrics import average_accuracy, performance_drop
from subspan.experiments.report.tables import Cell

PUBLISHED, QUOTED, OURS = "published", "quoted", "ours"  # what tables call a row
STORED = "ours, stored"  # not run now: of a system that needs images


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
        average = average_accuracy(self.accuracy) if math.isnan(self.average) else self.average
        known = {f"session_{session}": value for session, value in zip(self.sessions, self.accuracy, strict=True)}
        known |= {"base": self.base, "novel": self.novel, "average": float(average)}
        return {key: Cell(value) for key, value in (known | {"drop": float(performance_drop(self.accuracy))}).items()}


@dataclass(frozen=True)
class PublishedTable:
    """Rows over sessions."""

    sessions: tuple[int, ...]
    rows: tuple[PublishedRow, ...]
    label: str = ""  # of the table in the paper's LaTeX source

    def of(self, method: str, memory: bool) -> PublishedRow | None:
        """The row of one of our methods, if there is one."""
        return next((row for row in self.rows if (row.method, row.memory) == (method, memory)), None)

    @property
    def quoted(self) -> tuple[PublishedRow, ...]:
        """Rows of systems that are none of our methods."""
        return tuple(row for row in self.rows if row.method is None)


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
    main: PublishedTable  # sessions 1, 2, 8, both memory settings
    without_memory: PublishedTable
    with_memory: PublishedTable
    old_penalty: PublishedTable
    fixed_split: PublishedTable  # another protocol
    networks: tuple[PublishedNetwork, ...]
    single_session: tuple[PublishedEpisodes, ...]

    def said_by(self, marks: Collection[str]) -> str:
        """What source marks mean."""
        return f"Sources: {'; '.join(f'{mark}: {self.sources[mark]}' for mark in self.sources if mark in marks)}."


@cache
def published() -> Published:
    """The numbers that come with the package.

    >>> published().without_memory.of("subspace", memory=False).accuracy[-1]
    46.79
    """
    data = json.loads(resources.files("subspan.paper").joinpath("published.json").read_text(encoding="utf-8"))
    names = ("main", "without_memory", "with_memory", "old_penalty", "fixed_split")
    return Published(
        data["sources"],
        *(_table(data[name]) for name in names),
        networks=tuple(PublishedNetwork(**row) for row in data["networks"]["rows"]),
        single_session=tuple(map(_episodes, data["single_session"]["rows"])),
    )


def _table(data: Mapping[str, Any]) -> PublishedTable:
    sessions, rows = tuple(data["sessions"]), []
    for row in data["rows"]:
        accuracy = tuple(math.nan if value is None else float(value) for value in row["accuracy"])
        tuples = {"accuracy": accuracy, "systems": tuple(row.get("systems", ())), "sessions": sessions}
        rows.append(PublishedRow(**{**row, **tuples}))
    return PublishedTable(sessions, tuple(rows), data.get("label", ""))


def _episodes(row: Mapping[str, Any]) -> PublishedEpisodes:
    cells: dict[str, dict[str, Cell]] = {"mini": {}, "tiered": {}}
    for data, of_data in cells.items():
        for shots, (accuracy, half_width, delta, *bold) in row[data].items():  # bold: not below the best, as printed
            of_data[f"accuracy_{shots}_shot"] = Cell(float(accuracy), float(half_width), top=bool(bold))
            of_data[f"delta_{shots}_shot"] = Cell(float(delta))
    return PublishedEpisodes(row["model"], row["source"], row.get("system", ""), cells)
