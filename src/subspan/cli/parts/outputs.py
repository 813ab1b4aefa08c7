"""What ``bench`` and ``show`` make of results: tables on the screen, and the files that are wanted."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

from subspan.experiments.inputs import ProtocolError
from subspan.experiments.records import Result
from subspan.experiments.report.against import against_table
from subspan.experiments.report.render import to_console
from subspan.experiments.report.results_table import results_table
from subspan.experiments.report.tables import Table
from subspan.experiments.results import write_records
from subspan.files.atomic import replacing
from subspan.learners.registry import create_method, spec_of, split_spec
from subspan.values import option


@dataclass(frozen=True)
class Outputs:
    """Which tables and files."""

    against: str | None = option(
        None, "a method: print the paired differences of all others to it, with interval, p, effect size"
    )
    json: Path | None = option(None, "write the results as JSON, from which `subspan show` makes all of this again")
    csv: Path | None = option(None, "write one line for each method, split, draw and session, for pandas")
    report: Path | None = option(None, "write an HTML report with tables and figures into this folder")

    def __post_init__(self) -> None:
        wrong = {"--json": self.json, "--csv": self.csv}
        wrong = {flag: f"'{path}' is a folder" for flag, path in wrong.items() if path is not None and path.is_dir()}
        if self.report is not None and self.report.is_file():
            wrong["--report"] = f"'{self.report}' is a file"
        for flag, what in wrong.items():
            raise typer.BadParameter(what, param_hint=f"'{flag}'")

    def write(self, results: Sequence[Result], title: str) -> None:
        """Print the tables, and write what is wanted."""
        rival = None if self.against is None else rival_of(self.against, [one.method for one in results])
        print_table(results_table(results, title))
        if rival is not None:
            print_table(against_table(results, rival), decimals=4)
        if self.json is not None:
            write_records(self.json, results)
        if self.csv is not None:
            import pandas as pd  # slow to import, and only for this

            with replacing(self.csv) as file:
                pd.concat([one.to_frame() for one in results]).to_csv(file, index=False)
        if self.report is not None:
            from subspan.experiments.report.html import write_report  # brings Matplotlib: slow to import

            told = results[0].run
            name = told.get("settings", {}).get("protocol", "multi-session")
            facts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()}
            page = write_report(self.report, results, title=f"Subspan: {name} benchmark", facts=facts)
            typer.echo(f"Report: {page}")


def print_table(table: Table, decimals: int = 1) -> None:
    """On the screen, wide enough for the sessions of the paper."""
    Console(width=max(120, Console().width)).print(to_console(table, decimals=decimals))


def rival_of(against: str, methods: Sequence[str]) -> str:
    """The one of the methods that --against means: itself, or with the options that regularizers were given."""
    named = spec_of(create_method(against))
    same = [one for one in methods if split_spec(one)[0] == split_spec(named)[0]]
    if not same or len(set(methods)) < 2:
        raise ProtocolError(f"--against {against} needs a result of this method, and of another; name both by --method")
    return named if named in same else same[0]
