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
from typing import Any


@dataclass(frozen=True)
class PublishedRow:
    """Accuracy (%) on all classes seen after each of the table's sessions; NaN where it was not published."""

    model: str
    accuracy: tuple[float, ...]
    source: str  # a key of Published.sources
    method: str | None = None  # ours of the same name, with options; None for a row only quoted
    systems: tuple[str, ...] = ()  # ours of the same system
    memory: bool | None = None  # the paper's setting: one example per earlier class is kept, or none
    stored: str = ""  # what a later system keeps, where it keeps something
    network: str = ""
    average: float = math.nan  # as published; NaN where only the sessions were
    base: float = math.nan  # after the last session
    novel: float = math.nan


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
    validation: tuple[float, ...]
    mean: float
    source: str


@dataclass(frozen=True)
class PublishedCell:
    """One system with one number of shots: joint accuracy (%) over 2000 episodes, its 95 % interval, and Delta."""

    accuracy: float
    half_width: float
    delta: float
    bold: bool = False  # printed as not significantly different from the best


@dataclass(frozen=True)
class PublishedEpisodes:
    """One line of the single-session table."""

    model: str
    source: str  # a key of Published.sources; "P" for the paper's own methods
    system: str  # ours of the same system, if there is one
    cells: Mapping[tuple[str, int], PublishedCell]  # by data set (mini, tiered) and shots


@dataclass(frozen=True)
class Published:
    """All tables; ``sources`` says what each source mark means."""

    sources: Mapping[str, str]
    main: PublishedTable  # sessions 1, 2, 8, both memory settings
    without_memory: PublishedTable
    with_memory: PublishedTable
    old_penalty: PublishedTable
    networks: tuple[PublishedNetwork, ...]
    fixed_split: PublishedTable  # another protocol
    single_session: tuple[PublishedEpisodes, ...]


@cache
def published() -> Published:
    """The numbers that come with the package.

    >>> published().without_memory.of("subspace", memory=False).accuracy[-1]
    46.79
    """
    data = json.loads(resources.files("subspan.paper").joinpath("published.json").read_text(encoding="utf-8"))
    networks = tuple(
        PublishedNetwork(**{**row, "validation": tuple(row["validation"])}) for row in data["networks"]["rows"]
    )
    names = ("main", "without_memory", "with_memory", "old_penalty", "fixed_split")
    episodes = tuple(map(_episodes, data["single_session"]["rows"]))
    tables = {name: _table(data[name]) for name in names}
    return Published(data["sources"], networks=networks, single_session=episodes, **tables)


def _episodes(row: Mapping[str, Any]) -> PublishedEpisodes:
    cells = {
        (data, int(shots)): PublishedCell(*map(float, numbers[:3]), bold="bold" in numbers)
        for data in ("mini", "tiered")
        for shots, numbers in row[data].items()
    }
    return PublishedEpisodes(row["model"], row["source"], row.get("system", ""), cells)


def _table(data: Mapping[str, Any]) -> PublishedTable:
    rows = tuple(
        PublishedRow(
            **{
                **row,
                "accuracy": tuple(math.nan if a is None else float(a) for a in row["accuracy"]),
                "systems": tuple(row.get("systems", ())),
            }
        )
        for row in data["rows"]
    )
    return PublishedTable(tuple(data["sessions"]), rows, data.get("label", ""))
