"""Answers as they become known: lines of CSV or JSON in a file that can be gone on with, or text."""

import contextlib
import csv
import dataclasses
import hashlib
import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from subspan.catalogue.errors import CatalogueError
from subspan.catalogue.records import Prediction
from subspan.cli import visible
from subspan.cli.parts import tables
from subspan.images.imageset import DataError

NONE = "none of these"
BLOCK = 64  # rows of text that are printed together
LONGEST = 2**16  # bytes of a line
NAMED = 20  # photographs that cannot be read, named at the end

Answer = Prediction | DataError


def row_of(file: object, answer: Answer) -> dict[str, Any]:
    """One answer as a JSON object."""
    if isinstance(answer, DataError):
        return {"image": str(file), "name": None, "error": str(answer)}
    row = {"image": str(file), "name": answer.name, **dataclasses.asdict(answer)}
    return {**row, "familiarity": answer.familiarity if math.isfinite(answer.familiarity) else None}


class Lines:
    """A file of answers, one a line, each on the disk when the next part is looked at."""

    def __init__(self, file: Path, top: int, resume: bool) -> None:
        self.file, self.is_csv = file, file.suffix.lower() == ".csv"
        self.top = top
        self.columns = ["image", "answer", "probability", "familiarity", "error"]
        self.columns += [f"{what}_{place}" for place in range(2, top + 1) for what in ("class", "probability")]
        self.done = self._done() if resume and file.exists() else np.zeros(0, np.uint64)

    def _done(self) -> np.ndarray:
        """Digests of the images that the file has answers of, sorted; a line that was not finished is cut off."""
        with self.file.open("r+b") as stream:
            tail = max(0, stream.seek(0, os.SEEK_END) - LONGEST)
            stream.seek(tail)
            stream.truncate(tail + stream.read().rfind(b"\n") + 1)
        with self.file.open(encoding="utf-8", errors="surrogateescape", newline="") as stream:
            rows = csv.reader(stream) if self.is_csv else (list(json.loads(line).values()) for line in stream)
            if self.is_csv and (header := next(rows, self.columns)) != self.columns:
                raise CatalogueError(
                    f"'{self.file}' has other columns ({', '.join(header[:5])}, ...); name another file"
                )
            return np.sort(np.fromiter((_digest(row[0]) for row in rows), np.uint64))

    def to_do(self, files: Iterable[Path]) -> Iterator[Path]:
        """The images that the file has no answer of."""
        for file in files:
            digest = _digest(str(file))
            place = np.searchsorted(self.done, digest)
            if place == len(self.done) or self.done[place] != digest:
                yield file

    @contextlib.contextmanager
    def writing(self) -> Iterator["Any"]:
        """Gives a function that writes a row at the end."""
        with self.file.open(
            "a" if len(self.done) else "w", encoding="utf-8", errors="surrogateescape", newline=""
        ) as stream:
            table = csv.writer(stream, lineterminator="\n")
            if self.is_csv and not len(self.done):
                table.writerow(self.columns)

            def write(file: object, answer: Answer) -> None:
                if self.is_csv:
                    table.writerow(self._cells(file, answer))
                else:
                    stream.write(json.dumps(row_of(file, answer)) + "\n")
                stream.flush()

            yield write

    def _cells(self, file: object, answer: Answer) -> list[object]:
        if isinstance(answer, DataError):
            return [file, "", "", "", answer]
        best, *rest = answer.candidates
        name, probability = (NONE, "") if answer.rejected else (best.name, f"{best.probability:.6f}")
        others = [cell for one in rest for cell in (one.name, f"{one.probability:.6f}")]
        return [file, name, probability, f"{answer.familiarity:.6f}", "", *others]


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


class Summary:
    """How many of each there were, and what could not be read."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.errors: list[str] = []
        self.bad = 0

    def add(self, answer: Answer) -> None:
        if isinstance(answer, DataError):
            self.bad += 1
            self.errors += [str(answer)] if len(self.errors) < NAMED else []
        else:
            self.counts[answer.name or NONE] += 1

    @property
    def total(self) -> int:
        return self.counts.total() + self.bad

    def tell(self, before: int) -> None:
        """Say it on standard error, where it is in nobody's way."""
        for error in self.errors:
            typer.echo(visible(f"Error: {error}"), err=True)
        if self.bad > len(self.errors):
            typer.echo(f"Error: and {self.bad - len(self.errors)} more", err=True)
        if self.total + before > 1:
            parts = [f"{count} {name}" for name, count in self.counts.most_common()]
            parts += [f"{self.bad} could not be read"] if self.bad else []
            parts += [f"{before} answered before"] if before else []
            typer.echo(visible(f"{tables.count(self.counts.total(), 'answer')}: {', '.join(parts)}."), err=True)


@contextlib.contextmanager
def printing(as_json: bool) -> Iterator[Any]:
    """Gives a function that prints answers as they come: a JSON list, or blocks of a table."""
    rows: list[tuple[object, Prediction]] = []
    printed = 0

    def block() -> None:
        nonlocal printed
        if rows:
            tables.show(tables.predictions_table(*zip(*rows, strict=True), header=printed == 0))
            printed += len(rows)
            rows.clear()

    def tell(file: object, answer: Answer) -> None:
        nonlocal printed
        if as_json:
            if isinstance(answer, Prediction):
                typer.echo(("," if printed else "[") + "\n " + visible(json.dumps(row_of(file, answer))), nl=False)
                printed += 1
        elif isinstance(answer, Prediction):
            rows.append((file, answer))
            if len(rows) == BLOCK:
                block()

    try:
        yield tell
    finally:
        if as_json:
            typer.echo("\n]" if printed else "[]")
        else:
            block()


def check_output(csv_file: Path | None, json_lines: Path | None, resume: bool, as_json: bool) -> Path | None:
    """The file to write answers to, if any."""
    given: Sequence[Path] = [file for file in (csv_file, json_lines) if file is not None]
    if len(given) + as_json > 1:
        raise CatalogueError("answers go to one place: --csv FILE, --jsonl FILE or --json")
    if resume and not given:
        raise CatalogueError("--resume goes on with a file; name it with --csv or --jsonl")
    for file, suffix in ((csv_file, ".csv"), (json_lines, ".jsonl")):
        if file is not None and file.suffix.lower() != suffix:
            raise CatalogueError(f"the file of --{suffix[1:]} ends in {suffix}; got '{file}'")
    return given[0] if given else None
