"""Writes `tests/data/published-values.json`: what the paper's tables say, read from its LaTeX source by a program.

The tests hold `subspan.paper`'s own `published.json`, which people typed, against it. Neither source is in this
repository: the LaTeX comes with the paper's preprint, the fact sheet (a Markdown table of model, network, accuracies,
average and source) is what the maintainers copied from the papers that the fixed split's rows name.

    python benchmarks/make_published_values.py PAPER.tex SYSTEMS.md
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parents[1] / "tests" / "data" / "published-values.json"
SESSION_TABLES = ("tb:mfscil_tao", "tb:appmem", "tb:appnomem", "tb:rold", "tb:stdresnet")
NUMBER = re.compile(r"-?\d+\.\d+")


def between(text: str, start: str, end: str) -> str:
    """What stands between two pieces of LaTeX."""
    return text.split(start, 1)[1].split(end, 1)[0]


def session_table(latex: str, label: str) -> list[tuple[str, list[float | None]]]:
    """Every line of a table that holds numbers: its name, and its numbers with None for empty cells."""
    body = between(latex, rf"\label{{{label}}}", r"\end{tabular}").split(r"\midrule", 1)[1]
    lines = [line.split("&") for line in body.split(r"\\")]
    numbers = [(name.strip(), [NUMBER.search(cell) for cell in cells]) for name, *cells in lines if cells]
    return [(name, [None if found is None else float(found.group()) for found in cells]) for name, cells in numbers]


def single_session_table(latex: str) -> list[dict[str, Any]]:
    """Every line of the other table: accuracy, half width and Delta of four cells, and which of them are bold."""
    lines = between(latex, r"\label{tb:mini}", r"\end{tabular}").split("\n")
    rows = []
    for name, *cells in (line.split("&") for line in lines if r"\stderr" in line):
        pairs = list(zip(cells[0::2], cells[1::2], strict=True))
        numbers = [[float(text) for text in NUMBER.findall(accuracy + delta)] for accuracy, delta in pairs]
        rows.append({"name": name.strip(), "cells": numbers, "bold": ["textbf" in accuracy for accuracy, _ in pairs]})
    return rows


def fact_sheet(text: str) -> dict[str, dict[str, Any]]:
    """Each published system of the fixed split: all sessions where they were told, else the first and the last."""
    rows: dict[str, dict[str, Any]] = {}
    for line in between(text, "| System | Backbone | rows 0..8 |", "\n\n").splitlines()[2:]:
        names, networks, sessions, averages, source = re.split(r"\s*\|\s*", line.strip("| "))
        models = names.split(" / ")
        told = sessions.removeprefix("first→last ").split(" / ")
        columns = (models, networks.removeprefix("RN").split("/"), told, averages.split("/"))
        for model, network, values, average in zip(*columns, strict=True):
            accuracy = [float(value) for value in re.split("[→ ]", values)]
            rows[model] = {
                "network": f"ResNet-{network}",
                "accuracy": accuracy if len(accuracy) > 2 else [accuracy[0], *[None] * 7, accuracy[1]],
                "average": float(average),
                "source": source,
            }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("paper", type=Path, help="the LaTeX source of the paper")
    parser.add_argument("sheet", type=Path, help="the fact sheet")
    given = parser.parse_args()
    latex = given.paper.read_text("utf-8")
    values = {
        "source": "Akyürek et al., Subspace Regularizers for Few-Shot Class Incremental Learning, ICLR 2022, LaTeX",
        "tables": {label: session_table(latex, label) for label in SESSION_TABLES},
        "single_session": single_session_table(latex),
        "fixed_split": fact_sheet(given.sheet.read_text("utf-8")),
    }
    OUT.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
