"""The systems of ``subspan reproduce --systems``: which there are, what each lacks, and their runs over the splits."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from subspan.cli.inputs import find_embeddings, usual_embeddings
from subspan.cli.shown_runs import run_shown
from subspan.engine.contract import Base, Learner
from subspan.experiments.config import Setting
from subspan.experiments.episodes import Episodes
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import missing_for
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.multi_session_runs import Job, Split, merge
from subspan.experiments.report.figures import ReportFigure
from subspan.experiments.report.html import ReportTable
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.experiments.stored_results import StoredResult, stored_results
from subspan.features.feature_set import FeatureSet
from subspan.learners.parts.network_system import NetworkSystem
from subspan.learners.parts.system import DrawnFeaturesWarning, System, TrainedSystem
from subspan.learners.parts.trained_part import TrainedPart, TrainedPartError
from subspan.learners.registry import create_method, list_network_systems, list_systems, method_class, method_options
from subspan.paper.costs import TrainingCost
from subspan.paper.published import published
from subspan.paper.single_session_tables import EpisodeRun
from subspan.paper.systems_tables import SystemRun, cost_picture, systems_table
from subspan.values import tensor_of

EVERY = "all"
PARTS = "systems"  # folder of trained parts and stored results, beside the one of feature files
BESIDE = ("subspace", "prototype", "calibrated")  # methods that stand in the tables of systems

# Of both experiments.
ReportOption = Annotated[
    Path | None, typer.Option(file_okay=False, help="Write all tables, figures and an HTML page here.")
]
FeaturesOption = Annotated[
    Path | None, typer.Option(help="Folder of feature files; default benchmarks/features of the checkout one is in.")
]
MarkdownOption = Annotated[Path | None, typer.Option(dir_okay=False, help="Write all tables into this markdown file.")]
SystemsOption = Annotated[
    str | None, typer.Option(help=f"Also published systems, side by side: {EVERY}, or names with commas.")
]
PartsOption = Annotated[
    Path | None,
    typer.Option(
        help=f"Folder of trained parts and stored results of systems; default '{PARTS}' beside the feature files."
    ),
]


@dataclass(frozen=True)
class SystemsPart:
    """What systems add to a report."""

    tables: list[ReportTable] = field(default_factory=list)
    figures: list[ReportFigure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # a sentence for each run that was left out


def multi_session_part(
    names: Sequence[str],
    runs: Sequence[tuple[str, MultiSession, Mapping[str, Split], Sequence[MethodResult]]],
    parts: Path,
    console: Console,
    place: Placement,
) -> SystemsPart:
    """One table for each of ``runs``: recipe, protocol, splits by name, results of methods to stand beside."""
    made = SystemsPart()
    for recipe, protocol, splits, methods in runs:
        found = [SystemRun(one.method, one, "") for one in methods if one.method in BESIDE and not one.memory]
        ran, left_out = run_systems(names, protocol, splits, parts, place, console)
        kept, absent = stored_runs(names, protocol, list(splits), parts, recipe)
        fixed = protocol.draws == 0
        tables = [published().fixed_split] if fixed else []
        rows = [
            row
            for table in (*tables, published().without_memory, published().with_memory)
            for row in table.rows
            if row.systems
        ]
        notes = (
            f"Base sessions by recipe '{recipe}'. Splits: {', '.join(splits)}; a system is averaged over those it "
            "can run on.",
            *(f"{one.name}: {note}" for one in found for note in one.result.notes),
        )
        made.tables.append(
            systems_table([*found, *ran, *kept], rows, published(), fixed=fixed, recipe=recipe, notes=notes)
        )
        made.missing.extend([*left_out, *absent])
        if not fixed:
            made.figures.append(cost_picture([*found, *ran, *kept]))
    return made


def episode_settings(
    names: Sequence[str], features: FeatureSet, parts: Path, shots: Sequence[int]
) -> tuple[list[Setting], list[str]]:
    """Every system with every number of shots that can run on these features, and a sentence for each that cannot."""
    settings, left_out = [], []
    kind = usual_embeddings(features)
    for name in (name for name in names if not moves_the_network(name)):
        for number in shots:
            system = create_system(name, parts, shots=number)
            wanted = kind if "embeddings" in system.needs else None
            reason = lacking(system, (features, find_embeddings(features, wanted) if wanted else None), number)
            if reason:
                left_out.append(f"System {name}, {number}-shot: {reason}.")
                continue
            options = {key: getattr(system, key) for key in ("trained", "shots") if hasattr(system, key)}
            settings.append(Setting(name, _model(name), number, wanted, options))
    return settings, left_out


def stored_episodes(
    names: Sequence[str], parts: Path, episodes: Episodes, shots: Sequence[int], recipe: str
) -> tuple[list[EpisodeRun], list[str]]:
    """Stored results of systems that move the network on these episodes, and a sentence for each that is absent.

    The same images make the same episodes whatever the network; results belong to the base session they started from.
    """
    found, left_out = [], []
    wanted = [name for name in names if moves_the_network(name)]
    for name, number in ((name, number) for name in wanted for number in shots):
        kept = stored_results(parts, episodes.first_shots(number).protocol)
        fitting = [one for one in kept if (one.system, one.items, one.recipe) == (name, episodes.items, recipe)]
        runs = [
            EpisodeRun(Setting(name, _model(name), number), one.result, TrainingCost.of_stored([one]), stored=True)
            for one in fitting
            if isinstance(one.result, EpisodeResult) and one.result.shots == number
        ]
        found += runs
        if not runs:
            left_out.append(f"System {name}, {number}-shot: no stored result on these episodes with recipe '{recipe}'.")
    return found, left_out


def moves_the_network(name: str) -> bool:
    """Whether tables show stored results of this system."""
    return issubclass(method_class(name), NetworkSystem)


def _protocol_of(name: str) -> str:
    """The protocol of a system that moves the network."""
    system = method_class(name)
    assert issubclass(system, NetworkSystem)
    return system.protocol


def _model(name: str) -> str:
    """What the published table calls a system."""
    return next((line.model for line in published().single_session if line.system == name), name)


def chosen_systems(text: str, protocol: str) -> list[str]:
    """The names in ``all`` or ``name,name`` of systems that run under a protocol."""
    others = {name: its for name in list_network_systems() if (its := _protocol_of(name)) != protocol}
    known = [name for name in (*list_systems(), *list_network_systems()) if name not in others]
    names = known if text == EVERY else [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if other := others.get(name):
            raise ValueError(f"system '{name}' has results under {other} only: `subspan reproduce {other}`")
        if name not in known:
            raise ValueError(f"there is no system '{name}'; --systems takes {EVERY} or some of {', '.join(known)}")
    if not names:
        raise ValueError(f"--systems names no system; it takes {EVERY} or some of {', '.join(known)}")
    return names


def create_system(name: str, parts: Path, shots: int | None = None) -> System:
    """A system with its published options; its trained part, where it has one, is looked for in a folder.

    ``shots`` is for systems that have a part for each number of them.
    """
    known = method_options(name)
    options = {"trained": str(parts)} if "trained" in known else {}
    system = create_method(name, **options, **({"shots": shots} if shots is not None and "shots" in known else {}))
    assert isinstance(system, System)
    return system


def part_of(method: Learner, features: FeatureSet) -> TrainedPart | None:
    """The trained part of a system for a feature file; None for a method or a system without."""
    if not isinstance(method, TrainedSystem):
        return None
    rows = tensor_of(features.for_linear_scores().base_weight).float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrawnFeaturesWarning)  # tables say so by themselves
        return method.part(Base(rows))


def lacking(system: System, split: Split, shots: int | None = None) -> str:
    """What keeps a system from running on a feature file, as a phrase; empty if nothing does.

    With ``shots`` a part that was trained for another number of them does not count.
    """
    features, embeddings = split
    absent = missing_for(features, system, system.uses_memory, embeddings)
    if absent:
        return absent
    try:
        part = part_of(system, features)
    except TrainedPartError as error:
        return str(error).replace(str(Path.cwd()) + os.sep, "")  # documents hold no path of this machine
    if part is not None and shots is not None and (of_part := part.options.get("shots", shots)) != shots:
        return f"its part for these features, '{Path(part.path).name}', is for {of_part}-shot"
    return ""


def stored_runs(
    names: Sequence[str], protocol: MultiSession, splits: Sequence[str], parts: Path, recipe: str
) -> tuple[list[SystemRun], list[str]]:
    """The stored results of systems that move the network, and a sentence for each split without one."""
    wanted = [name for name in names if moves_the_network(name)]
    found: dict[tuple[str, bool], dict[str, StoredResult]] = {}
    for stored in stored_results(parts, protocol.digest) if wanted else []:
        split = stored.split.replace(":", "-")
        if stored.system in wanted and split in splits and stored.recipe == recipe:
            assert isinstance(stored.result, MethodResult)
            found.setdefault((stored.system, stored.result.memory), {})[split] = stored
    runs = []
    for (name, _), results in found.items():
        merged = merge([one.result for one in results.values() if isinstance(one.result, MethodResult)])
        marks = next(iter(results.values())).marks
        training = TrainingCost.of_stored(list(results.values()))
        runs.append(SystemRun(name, replace(merged, method=name), marks, training, stored=True))
    left_out = []
    for name in wanted:
        have = {split for (system, _), results in found.items() if system == name for split in results}
        if absent := [split for split in splits if split not in have]:
            left_out.append(f"System {name}: no stored result for {', '.join(absent)} with recipe '{recipe}'.")
    return runs, left_out


def run_systems(
    names: Sequence[str],
    protocol: MultiSession,
    splits: Mapping[str, Split],
    parts: Path,
    place: Placement,
    console: Console,
) -> tuple[list[SystemRun], list[str]]:
    """Every system on the splits (by name) that have what it needs, and a sentence for each that was left out."""
    pairs = list(splits.values())
    jobs, named, left_out = [], [], []
    for name in (name for name in names if not moves_the_network(name)):
        system = create_system(name, parts)
        reasons = {title: lacking(system, split) for title, split in splits.items()}
        usable = tuple(number for number, reason in enumerate(reasons.values()) if not reason)
        for reason in dict.fromkeys(filter(None, reasons.values())):
            where = ", ".join(title for title, said in reasons.items() if said == reason)
            left_out.append(f"System {name} on {where}: {reason}.")
        for memory in (False, True) if system.uses_memory else (False,):
            if usable:
                jobs.append(Job(protocol, system, memory, usable))
                named.append(name)
    results = run_shown(pairs, jobs, place, console, "sessions of systems") if jobs else []
    runs = []
    for name, job, result in zip(named, jobs, results, strict=True):
        assert isinstance(job.method, System)
        training = TrainingCost.of_parts([part_of(job.method, pairs[number][0]) for number in job.splits])
        runs.append(SystemRun(name, replace(result, method=name), job.method.marks, training))
    return runs, left_out
