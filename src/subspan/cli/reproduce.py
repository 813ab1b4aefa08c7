"""``subspan reproduce``: the tables and pictures of the paper, made anew from feature files."""

import dataclasses
import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from subspan.cli import experiments
from subspan.cli.facts import run_facts
from subspan.cli.flags import Values, with_flags
from subspan.cli.inputs import find_all_embeddings, named
from subspan.cli.reproduce_systems import (
    PARTS,
    FeaturesOption,
    MarkdownOption,
    PartsOption,
    ReportOption,
    SystemsOption,
    SystemsPart,
    chosen_systems,
    multi_session_part,
)
from subspan.cli.shown_runs import run_shown
from subspan.engine.contract import Learner
from subspan.experiments.config import Config
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import missing_for
from subspan.experiments.multi_session import FIXED, RANDOM
from subspan.experiments.multi_session_runs import Job, Split
from subspan.experiments.report.figures import ReportFigure, curve_figures, heatmap_figures, weight_space_figures
from subspan.experiments.report.html import write_page
from subspan.experiments.report.render import to_console
from subspan.experiments.results import MethodResult
from subspan.features.feature_set import FeatureFileError, FeatureSet
from subspan.files.arrays import SUFFIXES, has_suffix
from subspan.learners.registry import spec_of
from subspan.paper.beyond import beyond_table
from subspan.paper.document import MULTI_SESSION as NAME
from subspan.paper.document import PAPER, multi_session_section, write_section
from subspan.paper.multi_session_tables import (
    ABLATION,
    BEYOND,
    METHODS,
    SPLITS,
    TUNED,
    TrainedNetwork,
    differences_table,
    fixed_split_table,
    networks_table,
    random_split_tables,
    splits_sentence,
)
from subspan.paper.published import published

FOLDER = Path("benchmarks") / "features"
BASE_CLASSES, NOVEL_CLASSES = 60, 40
DEVELOPMENT = 0  # the random split on which settings are chosen: it enters no table
CONFIGS = {"strong": "multi-session-strong"}  # packaged settings, for recipes that the defaults do not suit

_NAME = re.compile(r"(?P<recipe>.+)-(?:random-(?P<seed>\d+)|(?P<fixed>fixed))")


@dataclass(frozen=True)
class Inventory:
    """The feature files of a folder, by what they are."""

    random: dict[str, dict[int, Path]]  # recipe -> seed -> file; seeds 1 to 10
    fixed: dict[str, Path]  # recipe -> file
    left_out: tuple[str, ...]  # one sentence for each file that enters no table

    def of(self, recipe: str) -> "Inventory":
        """The files of one recipe."""
        random = {recipe: self.random[recipe]} if recipe in self.random else {}
        fixed = {recipe: self.fixed[recipe]} if recipe in self.fixed else {}
        return Inventory(random, fixed, self.left_out)


@experiments.command()
@with_flags(placement=Placement)
def multi_session(
    report: ReportOption = None,
    features: FeaturesOption = None,
    markdown: MarkdownOption = None,
    config: Annotated[str | None, typer.Option(help="Settings of methods, as `subspan sweep` writes them.")] = None,
    recipe: Annotated[str, typer.Option(help="Whose random splits to take: the first part of the name.")] = PAPER,
    systems: SystemsOption = None,
    parts: PartsOption = None,
    *,
    placement: Values,
) -> None:
    """Rebuild the tables and pictures of the paper from feature files: published values beside ours.

    Files are found by name in the folder: RECIPE-random-1 to RECIPE-random-10, and RECIPE-fixed, each .npz or
    .safetensors. Splits that are not there are left out of the means, and every table says so. Without --report and
    --markdown all tables are printed; with one of them only the main table is.

    Examples:

        subspan reproduce multi-session --report report

        subspan reproduce multi-session --features my-features --markdown REPRODUCIBILITY.md

        subspan reproduce multi-session --systems all --report report
    """
    place = Placement(**placement)
    wanted = chosen_systems(systems, NAME) if systems else []
    folder = find_folder(features, Path.cwd())
    inventory = take_inventory(folder)
    networks = [network.recipe for network in published().networks]
    if recipe != PAPER:  # in whose section stands what is the same for all: both networks, every fixed file
        inventory, networks = inventory.of(recipe), [recipe]
    seeds = sorted(inventory.random.get(recipe, {}))
    if not seeds:
        raise FeatureFileError(
            f"'{folder}' has no feature file of the random splits 1 to {SPLITS} with recipe '{recipe}'; they are named "
            f"{recipe}-random-1.npz or {recipe}-random-1.safetensors and so on"
        )
    began = time.perf_counter()
    console = Console(stderr=True)
    for sentence in (splits_sentence(seeds), *inventory.left_out):
        console.print(sentence, soft_wrap=True)
    chosen = [inventory.random[recipe][seed] for seed in seeds]
    splits = [load_split(path, f"random:{seed}") for path, seed in zip(chosen, seeds, strict=True)]
    settings = Config(NAME, ()) if config is None else Config.load(config, NAME)
    on_random, on_fixed, beyond = _run_all(splits, recipe, inventory, console, place, settings)
    whole = [result for result in on_random if result.method not in BEYOND or len(beyond) == len(splits)]
    results = [result for result in on_random if result.method in METHODS]
    trained = trained_networks(inventory, dict(zip(chosen, splits, strict=True)))
    tables = [
        *random_split_tables(whole, seeds, published(), recipe),
        *([networks_table(trained, published())] if recipe == PAPER else []),
        *([fixed_split_table(on_fixed, published())] if recipe == PAPER or on_fixed else []),
    ]
    if beyond:
        own = [result if result.method in BEYOND else result.of_splits(beyond) for result in on_random]
        tables.append(beyond_table(own, [seeds[number] for number in beyond]))
    missing = what_is_missing(inventory, trained, networks)
    lacking = [path.name for number, path in enumerate(chosen) if number not in beyond]
    if lacking:
        titles = " and ".join(BEYOND.values())
        missing.append(f"{titles}: {', '.join(lacking)} without what the method needs (base_covariance).")
    far = differences_table(tables)
    extra = SystemsPart()
    if wanted:
        on_splits = {f"random-{seed}": one for seed, one in zip(seeds, _with_embeddings(splits), strict=True)}
        fixed = inventory.of(recipe).fixed.values()  # each recipe's systems stand in its own section
        pairs = _with_embeddings([load_split(path, "fixed") for path in fixed])
        runs = [(recipe, RANDOM, on_splits, on_random)]
        runs += [(recipe, FIXED, {"fixed": pair}, on_fixed[recipe]) for pair in pairs]
        extra = multi_session_part(wanted, runs, parts or folder.parent / PARTS, console, place)
        tables += extra.tables
        missing += extra.missing
    facts = {
        **run_facts(RANDOM, place.device, time.perf_counter() - began),
        "cores": cores(),
        "protocol on the fixed split": f"{FIXED}",
        "protocol hashes": f"{RANDOM.digest} (random splits), {FIXED.digest} (fixed split)",
        "splits": splits_sentence(seeds),
        "recipe of the base sessions": recipe,
        **({"settings of methods": "; ".join(spec_of(one.create()) for one in settings.settings)} if config else {}),
    }
    for note in dict.fromkeys(note for result in on_random for note in result.notes):
        console.print(f"Warning: {note}", style="yellow", soft_wrap=True)
    for one in tables if report is None and markdown is None else tables[:1]:
        Console(width=max(120, Console().width)).print(to_console(one.table))
    typer.echo("\n".join(far.table.notes))
    if report is not None:
        figures = [*_figures(results, seeds), *extra.figures]
        title = "Subspan: the paper's multi-session experiments"
        findings = [splits_sentence(seeds), *far.table.notes, *missing]
        page = write_page(report, title=title, findings=findings, tables=[*tables, far], figures=figures, facts=facts)
        typer.echo(f"Report: {page}")
    if markdown is not None:
        write_section(markdown, multi_session_section(recipe), [*tables, far], missing, facts)
        typer.echo(f"Markdown: {markdown}")


def find_folder(named_folder: Path | None, start: Path) -> Path:
    """The folder asked for, or ``benchmarks/features`` in ``start`` or above it."""
    if named_folder is not None:
        if not named_folder.is_dir():
            raise FeatureFileError(f"there is no folder '{named_folder}' of feature files")
        return named_folder
    for place in (start, *start.parents):
        if (place / FOLDER).is_dir():
            return place / FOLDER
    raise FeatureFileError(
        f"there is no folder {FOLDER} in '{start}' or above it; run this inside a checkout of Subspan, or name a "
        "folder of feature files with --features"
    )


def take_inventory(folder: Path) -> Inventory:
    """What the names of the files in a folder say."""
    random: dict[str, dict[int, Path]] = {}
    fixed: dict[str, Path] = {}
    left_out = []
    files = list(filter(has_suffix, sorted(folder.iterdir())))
    for path in files:
        match = _NAME.fullmatch(path.stem)
        if match is None:
            continue
        recipe, seed = match["recipe"], match["seed"]
        known = fixed.get(recipe) if seed is None else random.get(recipe, {}).get(int(seed))
        if known is not None:
            raise FeatureFileError(f"'{known}' and '{path}' are two files of one split; remove one")
        if seed is None:
            fixed[recipe] = path
        elif int(seed) == DEVELOPMENT:
            left_out.append(f"Left out {path.name}: random split {DEVELOPMENT} is the development split.")
        elif int(seed) > SPLITS:
            left_out.append(f"Left out {path.name}: the tables are over random splits 1 to {SPLITS}.")
        else:
            random.setdefault(recipe, {})[int(seed)] = path
    if not files:
        raise FeatureFileError(f"the folder '{folder}' has no feature files ({' or '.join(SUFFIXES)})")
    return Inventory(random, fixed, tuple(left_out))


def load_split(path: Path, split: str) -> FeatureSet:
    """A feature file, if it is the split its name says and of the paper's protocol."""
    features = named(FeatureSet.load(path))
    told = features.meta.get("split")
    if told is not None and told != split:
        raise FeatureFileError(f"'{path}' is named after the split {split} but was made from {told}")
    if (features.base_count, features.novel_count) != (BASE_CLASSES, NOVEL_CLASSES):
        raise FeatureFileError(
            f"'{path}' has {features.base_count} base and {features.novel_count} novel classes; the multi-session "
            f"protocol has {BASE_CLASSES} and {NOVEL_CLASSES}"
        )
    return features


def trained_networks(inventory: Inventory, loaded: Mapping[Path, FeatureSet]) -> list[TrainedNetwork]:
    """Session 0 of every random split of the networks the paper compares, as the feature file says."""
    trained = []
    for recipe in (network.recipe for network in published().networks):
        for seed, path in sorted(inventory.random.get(recipe, {}).items()):
            meta = (loaded.get(path) or load_split(path, f"random:{seed}")).meta
            said = {key: meta.get(f"session0_{key}") for key in ("validation", "test")}
            trained.append(TrainedNetwork(recipe, seed, **{key: float(v) for key, v in said.items() if v is not None}))
    return trained


def what_is_missing(inventory: Inventory, trained: Sequence[TrainedNetwork], recipes: Sequence[str]) -> list[str]:
    """What the tables would need and the folder does not have, in sentences."""
    sentences = []
    for recipe in recipes:
        there = inventory.random.get(recipe, {})
        absent = [seed for seed in range(1, SPLITS + 1) if seed not in there]
        if absent:
            numbers = ", ".join(map(str, absent))
            sentences.append(f"No feature files of recipe '{recipe}' for random splits {numbers}.")
    if not inventory.fixed:
        sentences.append("No feature file of the fixed split.")
    silent = [f"{one.recipe}-random-{one.seed}" for one in trained if math.isnan(one.validation)]
    if silent:
        sentences.append(f"No validation accuracy of session 0 is recorded in {', '.join(silent)}.")
    return sentences


def _run_all(
    splits: list[FeatureSet], recipe: str, inventory: Inventory, console: Console, place: Placement, config: Config
) -> tuple[list[MethodResult], dict[str, list[MethodResult]], tuple[int, ...]]:
    """Results over the random splits, and those of each fixed file.

    Methods of our own run on the splits, numbered last, whose files have what they need.
    """
    pairs = _with_embeddings(splits)
    everything = tuple(range(len(pairs)))
    both = [(method, memory) for memory in (False, True) for method in METHODS]
    alone = [(method, False) for method in (*ABLATION, *TUNED) if method not in METHODS]
    on_splits = _config_for(recipe, config)
    jobs = [(name, Job(RANDOM, on_splits.method(name), memory, everything)) for name, memory in both + alone]
    own = [on_splits.method(name) for name in BEYOND]
    beyond = tuple(n for n, pair in enumerate(pairs) if not any(missing_for(pair[0], m, True, pair[1]) for m in own))
    ours = [(method, memory) for memory in (False, True) for method in BEYOND]
    if beyond:
        jobs += [(name, Job(RANDOM, on_splits.method(name), memory, beyond)) for name, memory in ours]
    fixed = {name: load_split(path, "fixed") for name, path in inventory.fixed.items()}
    recipes = dict(enumerate(fixed, start=len(pairs)))
    pairs += _with_embeddings(list(fixed.values()))
    for name, memory in both + ours:
        able: dict[Learner, list[int]] = {}
        for number, of_recipe in recipes.items():
            method = _config_for(of_recipe, config).method(name)
            if name in METHODS or not missing_for(pairs[number][0], method, memory, pairs[number][1]):
                able.setdefault(method, []).append(number)
        jobs += [(name, Job(FIXED, method, memory, tuple(numbers))) for method, numbers in able.items()]
    results = run_shown(pairs, [job for _, job in jobs], place, console)
    on_random: list[MethodResult] = []
    on_fixed: dict[str, list[MethodResult]] = {name: [] for name in fixed}
    for (name, job), result in zip(jobs, results, strict=True):
        # Tables find a method by the name it has there, whatever settings it was run with.
        of_name = dataclasses.replace(result, method=name)
        if job.protocol is RANDOM:
            on_random.append(_with_options(of_name, recipe, job))
            continue
        for nth, number in enumerate(job.splits):
            on_fixed[recipes[number]].append(_with_options(of_name.of_splits([nth]), recipes[number], job))
    return on_random, on_fixed, beyond


def _config_for(recipe: str, config: Config) -> Config:
    """The user's settings, and for methods without one those that come with the package for features of a recipe."""
    if recipe not in CONFIGS:
        return config
    own = {setting.method for setting in config.settings}
    packaged = Config.load(CONFIGS[recipe], NAME).settings
    return dataclasses.replace(config, settings=(*config.settings, *(s for s in packaged if s.method not in own)))


def _with_options(result: MethodResult, recipe: str, job: Job) -> MethodResult:
    """A result with a note on its options: a method of ours, or one on features of a recipe with its own config."""
    spec, name = spec_of(job.method), result.method
    if spec == name or not (name in BEYOND or recipe in CONFIGS):
        return result
    return dataclasses.replace(result, notes=(*result.notes, f"on recipe '{recipe}' run as {spec}."))


def _with_embeddings(files: list[FeatureSet]) -> list[Split]:
    return list(zip(files, find_all_embeddings(files, None), strict=True))


def _figures(results: Sequence[MethodResult], seeds: Sequence[int]) -> list[ReportFigure]:
    """The paper's pictures: curves with memory, heat maps and weight spaces without."""
    curves = curve_figures([result for result in results if result.memory])
    without = {result.method: result for result in results if not result.memory}
    spaces = weight_space_figures([without["subspace"], without["semantic"]])
    maps = heatmap_figures([without["finetune"], without["subspace"]])
    where = f" Split random-{seeds[0]}"
    over = f" {splits_sentence(seeds)}" + (" One split has no interval." if len(seeds) == 1 else "")
    return [
        *(dataclasses.replace(f, caption=f"{f.caption}{over}") for f in curves),
        *(dataclasses.replace(f, caption=f"{f.caption}{where}.") for f in maps),
        *(dataclasses.replace(f, caption=f"{f.caption}{where}, after session 1.") for f in spaces),
    ]


def cores() -> str:
    """How many cores there are and how busy: what the seconds mean depends on both."""
    load = f", {os.getloadavg()[0]:.1f} processes at once over the last minute" if hasattr(os, "getloadavg") else ""
    return f"{os.cpu_count()}{load}"
