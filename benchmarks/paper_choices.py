"""The paper's text, its released code and ours side by side: what each choice is worth on the same ten splits.

    nice python benchmarks/paper_choices.py
    python benchmarks/paper_choices.py --page docs/results-choices.md

The first runs what is not yet in `benchmarks/choices/paper.json` and keeps it there; the second makes the page of that
without a run. A row is a method with options; `one mean` takes support and memory as one mean, as the text's equation
has it, where the released code has a second mean for the examples of earlier novel classes. One support draw.
"""

import argparse
import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from subspan.cli.parts.facts import run_facts
from subspan.engine.contract import Learner, Memory, Session, State
from subspan.engine.objective import Problem
from subspan.experiments.fan_out import Placement
from subspan.experiments.metrics import interval_half_width
from subspan.experiments.multi_session import RANDOM
from subspan.experiments.named_features import find_all_embeddings, named
from subspan.experiments.records import plain
from subspan.experiments.report.drawings import MOST_SESSIONS
from subspan.experiments.report.figures import curve_figures, heatmap_figures
from subspan.experiments.report.tables import Cell, Column, Row, Table
from subspan.experiments.results import MethodResult
from subspan.experiments.runs import Job, run_jobs
from subspan.features.feature_set import FeatureFileError, FeatureSet
from subspan.files.atomic import replacing
from subspan.learners.parts.regularizer import Regularizer
from subspan.learners.registry import create_method
from subspan.paper.pages import PAPER, Section, sha256_of, write_section
from subspan.paper.published import PUBLISHED, published
from subspan.paper.tables.multi_session import BEYOND, METHODS, rivals_table

ROOT = Path(__file__).resolve().parents[1]
NAME, KEPT = "choices", "choices/paper.json"  # of the page, and of the runs beside the feature files
ALL = (*METHODS, *BEYOND)
KEYS = ("base", "novel_session_mean", "steps")
PICTURED = ("finetune", "subspace")  # the heat maps of figure 3
Key = tuple[str, bool, bool]  # method with options, memory, one mean
Results = Mapping[Key, MethodResult]
SHOWN = (1, 2, 8)  # sessions, as in the paper's main table


@dataclass(frozen=True)
class Choice:
    """A row: how a method of the paper is run."""

    name: str  # of the method
    title: str
    method: str  # with its options
    one_mean: bool = False  # one cross-entropy over support and memory, as the text has it; without memory the same
    memories: tuple[bool, ...] = (False, True)  # of which the row has figures


_LETTER = "subspace:old_penalty=squared,basis=qr"
CHOICES = (
    Choice("subspace", "text: squared R_old, QR, one mean", _LETTER, True),
    Choice("subspace", "text, and no cap: at most 20,000 steps", f"{_LETTER},max_steps=20000", memories=(False,)),
    Choice("subspace", "released code: norm, QR, two means", "subspace:basis=qr"),
    Choice("subspace", "ours: norm, SVD, two means", "subspace"),
    Choice("subspace", "ours, but squared R_old", "subspace:old_penalty=squared"),
    Choice("subspace", "ours, but one mean", "subspace", True, memories=(True,)),
    Choice("subspace", "ours, and no cap: at most 20,000 steps", "subspace:max_steps=20000", memories=(False,)),
    Choice("semantic", "text: squared R_old, gamma 1, one mean", "semantic:gamma=1,old_penalty=squared", True),
    Choice("semantic", "ours, as the released code: norm, gamma 0.2, two means", "semantic"),
    Choice("semantic", "ours, but squared R_old", "semantic:old_penalty=squared"),
    Choice("semantic", "ours, but gamma 1", "semantic:gamma=1"),
    Choice("linear_map", "text: squared R_old, one mean; map by ridge", "linear_map:old_penalty=squared", True),
    Choice("linear_map", "ours, as the released code: norm, two means; map by ridge", "linear_map"),
    Choice("finetune", "text: squared R_old, one mean", "finetune:old_penalty=squared", True),
    Choice("finetune", "ours, as the released code: norm, two means", "finetune"),
    Choice("finetune", "ours, and no cap: at most 20,000 steps", "finetune:max_steps=20000", memories=(False,)),
)
_NONE = (False,)  # systems that keep no memory
SYSTEMS = (
    Choice("fecam", "ours: shrunk once by 100, power before the mean", "fecam", memories=_NONE),
    Choice("fecam", "as released: twice by 1, power of the mean", "fecam:form=released", memories=_NONE),
    Choice("calibrated-fecam", "ours: power and correlations of FeCAM", "calibrated-fecam", memories=_NONE),
    Choice("calibrated-fecam", "as released", "calibrated-fecam:form=released", memories=_NONE),
    Choice("ranpac", "ours: classes counted alike, ridge 0.01, 2,000 wide", "ranpac", memories=_NONE),
    Choice(
        "ranpac", "as released, but 2,000 of 10,000 wide: ridge by validation", "ranpac:form=released", memories=_NONE
    ),
    Choice(
        "ranpac",
        "calibrated, as released, but 2,000 of 10,000 wide",
        "ranpac:form=calibrated,alpha=0.25",
        memories=_NONE,
    ),
    Choice("teen", "as released: alpha 0.5 of its parser", "teen", memories=_NONE),
    Choice("teen", "as released: alpha 0.1 of its CIFAR script", "teen:alpha=0.1", memories=_NONE),
)


def load(path: Path) -> tuple[dict[str, Any], Results]:
    """What a file of runs says of itself, and its results; what it does not keep is NaN."""
    kept = json.loads(path.read_text("utf-8"))
    results: dict[Key, MethodResult] = {}
    for run in kept.pop("runs"):
        base, novel = (np.array(run[key], dtype=np.float64) for key in ("base", "novel_session_mean"))  # (splits, 9)
        counts, unknown = tuple(kept["class_counts"]), np.full_like(base, np.nan)
        confusion = None
        if "confusion" in run:  # [session, true, predicted, count] where there is a count
            *places, numbers = np.array(run["confusion"]).T
            confusion = np.zeros((max(places[0]) + 1, counts[-1], counts[-1]), np.int64)
            confusion[tuple(places)] = numbers
        results[run["method"], run["memory"], run["one_mean"]] = MethodResult(
            method=run["method"],
            memory=run["memory"],
            class_counts=counts,
            accuracy=unknown,
            class_mean=unknown,
            base=base,
            novel=novel,  # the same, as every session has as many test images
            novel_session_mean=novel,
            steps=np.array(run["steps"], dtype=np.float64),
            seconds=0.0,
            protocol=kept["protocol"],
            splits=np.arange(len(base)),
            forgetting=unknown,
            confusion=confusion,
        )
    return kept, results


def choices_table(results: Results, choices: Sequence[Choice] = CHOICES) -> Table:
    """Every choice, below what was published: accuracies, and what a run has more than ours at the last session."""
    columns, signs = [], [("-M", False), ("+M", True)] if choices is CHOICES else [("-M", False)]
    for sign, memory in signs:
        group = f"{'With' if memory else 'Without'} memory ({sign})"
        columns += [Column(f"session_{s}{sign}", str(s), f"after session {s}, {sign}", group) for s in SHOWN]
        columns.append(Column(f"more{sign}", "8, less ours", "paired difference at session 8", group))
    rows = []
    for name in dict.fromkeys(choice.name for choice in choices):
        cells: dict[str, Cell] = {}
        for sign, memory in signs:
            if row := published().row(name, memory, published().without_memory, published().with_memory):
                cells |= {f"session_{s}{sign}": Cell(row.accuracy[s]) for s in SHOWN}
        rows += [Row((METHODS[name], PUBLISHED), cells, name)] if cells else []
        for choice in (one for one in choices if one.name == name):
            cells = {}
            for sign, memory in (sign for sign in signs if sign[1] in choice.memories):
                result, ours = results[choice.method, memory, choice.one_mean and memory], results[name, memory, False]
                mean, half_width = result.mean_and_half_width(result.weighted)
                cells |= {f"session_{s}{sign}": Cell(float(mean[s]), float(half_width[s])) for s in SHOWN}
                apart = result.samples(result.weighted[:, -1]) - ours.samples(ours.weighted[:, -1])
                if apart.any():
                    cells[f"more{sign}"] = Cell(float(apart.mean()), float(interval_half_width(apart)))
            rows.append(Row((METHODS.get(name, name), choice.title), cells, name))
    title = "What each choice is worth" if choices is CHOICES else "Systems as released, and ours"
    return Table(("method", "row"), tuple(columns), tuple(rows), title, name="choices")


def section_of(folder: Path) -> tuple[Section, dict[str, str]]:
    """The page's section from the runs and feature files of a folder, and what the runs say of themselves."""
    about, results = load(folder / KEPT)
    for source, known in about["sources"].items():
        if sha256_of(folder / source) != known:
            raise FeatureFileError(f"'{folder / source}' is not what {KEPT} was measured on; run `{about['command']}`")
    usual = [results[name, memory, False] for name in METHODS for memory in (False, True)]
    figures = [*curve_figures(usual, published().curves), *heatmap_figures(usual)]
    ours = [one for (name, _, one_mean), one in results.items() if name in ALL and not one_mean]
    measured = [one for one in SYSTEMS if (one.method, False, False) in results]
    tables = [choices_table(results), choices_table(results, measured), rivals_table(ours, range(1, 11), published())]
    facts = {key: about[key] for key in ("command", "protocol", "device", "date", "version")}
    sources = [folder / KEPT, *(folder / source for source in about["sources"])]
    section = Section(
        name=NAME, recipe=PAPER, protocol=about["protocol"], tables=tables, figures=figures, sources=sources
    )
    return section, facts


def with_one_mean(method: Learner) -> Learner:
    """The same method, for which examples of earlier novel classes count like those of base classes."""
    assert isinstance(method, Regularizer)

    def problem(state: State, session: Session) -> tuple[Problem, Tensor]:
        if len(session.memories) > 1:
            features, labels = zip(*((one.features, one.labels) for one in session.memories), strict=True)
            whole = Memory(torch.cat(features, dim=-2), torch.cat(labels, dim=-1))
            session = replace(session, base_memory=whole, novel_memory=None)
        return method.problem(state, session)

    changed = replace(method)
    object.__setattr__(changed, "problem", problem)  # its options stay frozen
    return changed


def run(folder: Path) -> None:
    """Run what is not kept yet."""
    paths = [next((folder / "features").glob(f"paper-random-{seed}.*")) for seed in range(1, 11)]
    sources, out = {f"features/{path.name}": sha256_of(path) for path in paths}, folder / KEPT
    kept = json.loads(out.read_text("utf-8")) if out.is_file() else {"sources": sources, "runs": []}
    if kept["sources"] != sources:
        raise FeatureFileError(f"'{out}' holds results of other features; remove it to make it anew")
    runs = {(run["method"], run["memory"], run["one_mean"]): run for run in kept["runs"]}
    files = [named(FeatureSet.load(path)) for path in paths]
    splits = list(zip(files, find_all_embeddings(files, None), strict=True))
    wanted = [
        (one.method, memory, one.one_mean and memory)
        for memory in (False, True)
        for one in (*CHOICES, *SYSTEMS)
        if memory in one.memories
    ]
    wanted += [(method, memory, False) for method in ALL for memory in (False, True)]
    began = time.perf_counter()
    for method, memory, one_mean in dict.fromkeys(wanted):
        if (method, memory, one_mean) not in runs:
            learner = with_one_mean(create_method(method)) if one_mean else create_method(method)
            job = Job(RANDOM, learner, memory, tuple(range(len(splits))))
            (result,) = run_jobs(splits, [job], Placement(workers=1))
            told: dict[str, Any] = {"method": method, "memory": memory, "one_mean": one_mean}
            told |= {key: plain(getattr(result, key)) for key in KEYS}
            if method in PICTURED and not memory and result.confusion is not None:  # of the first file
                places = np.nonzero(result.confusion[: MOST_SESSIONS + 1])
                told["confusion"] = np.stack([*places, result.confusion[places]], axis=1).tolist()
            runs[method, memory, one_mean] = told
            last = result.weighted[:, -1].mean()
            print(f"{method:50} memory {memory!s:5} {last:6.2f} {result.seconds:5.0f} s", flush=True)
        facts = run_facts(RANDOM, "cpu", time.perf_counter() - began) | {"command": shlex.join(["python", *sys.argv])}
        counts = [files[0].base_count + 5 * session for session in range(9)]
        head = {key: facts[key] for key in ("command", "protocol", "device", "date", "version")}
        text = json.dumps({**head, "class_counts": counts, "sources": sources}, indent=1)
        lines = ",\n".join(json.dumps(run) for run in runs.values())
        with replacing(out) as file:
            file.write_text(f'{text[:-2]},\n "runs": [\n{lines}\n]}}\n', "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="make this page of what is kept")
    given = parser.parse_args()
    if given.page is None:
        run(ROOT / "benchmarks")
    else:
        write_section(given.page, *section_of(ROOT / "benchmarks"))


if __name__ == "__main__":
    main()
