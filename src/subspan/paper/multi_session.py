"""The paper's multi-session experiments with one recipe: from its feature files to tables and pictures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from subspan.engine.contract import Learner
from subspan.experiments.config import Config
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import missing_for
from subspan.experiments.multi_session import FIXED, RANDOM, MultiSession
from subspan.experiments.named_features import find_all_embeddings
from subspan.experiments.report.figures import ReportFigure, curve_figures, heatmap_figures, weight_space_figures
from subspan.experiments.results import MethodResult
from subspan.experiments.runs import Job, Split, run_jobs
from subspan.features.feature_set import FeatureFileError, FeatureSet
from subspan.learners.registry import spec_of
from subspan.paper.pages import PAPER, Section
from subspan.paper.published import MULTI_SESSION, published
from subspan.paper.sources import Sources, find_file, load, settings_file
from subspan.paper.systems import chosen_systems, run_systems, stored_runs
from subspan.paper.tables.multi_session import (
    ABLATION,
    BEYOND,
    METHODS,
    SPLITS,
    TUNED,
    fixed_split_table,
    networks_table,
    random_split_tables,
    reached_sentence,
    rivals_table,
    splits_sentence,
)
from subspan.paper.tables.runs import Run
from subspan.paper.tables.systems import cost_picture, systems_table

CLASSES = (60, 40)  # base and novel
CONFIGS = {"strong": "multi-session-strong"}  # packaged settings, for recipes that the defaults do not suit
BESIDE = ("subspace", "prototype", "calibrated")  # methods that stand in the tables of systems


def make(sources: Sources, place: Placement, recipe: str) -> Section:
    """All tables and pictures of a recipe, from the files of a folder."""
    wanted, console = chosen_systems(sources.systems, MULTI_SESSION), Console(stderr=True)
    folder, parts = sources.folders()
    files = _random_files(folder, recipe)
    if not files:
        raise FeatureFileError(
            f"'{folder}' has no feature file of the random splits 1 to {SPLITS} with recipe '{recipe}'; they are named "
            f"{recipe}-random-1.npz or {recipe}-random-1.safetensors and so on"
        )
    seeds, fixed = list(files), find_file(folder, f"{recipe}-fixed")
    console.print(splits_sentence(seeds), soft_wrap=True)
    named = {f"random:{seed}": path for seed, path in files.items()} | ({"fixed": fixed} if fixed else {})
    loaded = [load(path, split, CLASSES) for split, path in named.items()]
    splits = list(zip(loaded, find_all_embeddings(loaded, None), strict=True))
    settings = config_for(
        recipe, Config.load(sources.config, MULTI_SESSION) if sources.config else Config(MULTI_SESSION)
    )
    absent = ", ".join(str(seed) for seed in range(1, SPLITS + 1) if seed not in seeds)
    missing = [f"No feature files of recipe '{recipe}' for random splits {absent}."] if absent else []
    missing += [] if fixed else ["No feature file of the fixed split."]
    own = []  # methods of ours run where all files have what they need
    for name, title in BEYOND.items():
        method = settings.method(name)
        lacking = [path.name for path, one in zip(named.values(), splits, strict=True) if _lacks(one, method)]
        if lacking:
            missing.append(f"{title}: {', '.join(lacking)} without what the method needs (base_covariance).")
        else:
            own.append(name)
    on_random, on_fixed = _run_all(splits, len(seeds), own, recipe, settings, place)
    for note in dict.fromkeys(note for result in on_random for note in result.notes):
        console.print(f"Warning: {note}", style="yellow", soft_wrap=True)

    tables = random_split_tables(on_random, seeds, published(), recipe)
    chosen_by = [sources.config or CONFIGS.get(recipe)]
    read = [*named.values(), *(settings_file(name) for name in chosen_by if name)]
    if recipe == PAPER:
        trained = {recipe: {seed: _session0(one) for seed, one in zip(seeds, loaded, strict=False)}}
        for other in (network.recipe for network in published().networks if network.recipe != recipe):
            found = _random_files(folder, other)
            read += found.values()
            trained[other] = {s: _session0(load(path, f"random:{s}", CLASSES)) for s, path in found.items()}
        tables.append(networks_table(trained, published()))
        known = [(f"{name}-random-{seed}", said) for name, of in trained.items() for seed, said in of.items()]
        silent = ", ".join(name for name, said in known if "validation" not in said)
        missing += [f"No validation accuracy of session 0 is recorded in {silent}."] if silent else []
    if on_fixed:
        tables.append(fixed_split_table(on_fixed, recipe, published()))
    tables.append(rivals_table(on_random, seeds, published()))
    figures = _figures([result for result in on_random if result.method in METHODS], seeds)
    by_name = dict(zip((name.replace(":", "-") for name in named), splits, strict=True))
    for protocol, methods in ((RANDOM, on_random), (FIXED, on_fixed)) if wanted else ():
        chosen = {name: split for name, split in by_name.items() if (name == "fixed") == (protocol is FIXED)}
        if not methods:
            continue
        ran, left_out = run_systems(wanted, protocol, chosen, parts, place)
        kept, absent_ones = stored_runs(wanted, protocol, list(chosen), parts, recipe)
        beside = [Run(one.method, one) for one in methods if one.method in BESIDE and not one.memory]
        runs = [*beside, *ran, *kept]
        read += dict.fromkeys(file for run in runs for file in run.files)
        missing += [*left_out, *absent_ones]
        tables.append(systems_table(runs, published(), fixed=protocol is FIXED, recipe=recipe))
        figures += [cost_picture(runs)] if protocol is RANDOM else []
    return Section(
        name=MULTI_SESSION,
        recipe=recipe,
        protocol=RANDOM,
        tables=tables,
        figures=figures,
        findings=[splits_sentence(seeds), reached_sentence(tables)],
        missing=missing,
        facts={
            "protocol on the fixed split": f"{FIXED}",
            "protocol hashes": f"{RANDOM.digest} (random splits), {FIXED.digest} (fixed split)",
            "settings": "; ".join(spec_of(one.create()) for one in settings.settings),
        },
        sources=read,
    )


def config_for(recipe: str, config: Config) -> Config:
    """The user's settings, and for methods without one those that come with the package for features of a recipe."""
    if recipe not in CONFIGS:
        return config
    own = {setting.method for setting in config.settings}
    packaged = Config.load(CONFIGS[recipe], MULTI_SESSION).settings
    return replace(config, settings=(*config.settings, *(s for s in packaged if s.method not in own)))


def _random_files(folder: Path, recipe: str) -> dict[int, Path]:
    """The files of the random splits by seed; split 0, on which settings are chosen, enters no table."""
    found = {seed: find_file(folder, f"{recipe}-random-{seed}") for seed in range(1, SPLITS + 1)}
    return {seed: path for seed, path in found.items() if path is not None}


def _session0(features: FeatureSet) -> dict[str, float]:
    """Accuracies of session 0, as far as a feature file says them."""
    said = {key: features.meta.get(f"session0_{key}") for key in ("validation", "test")}
    return {key: float(value) for key, value in said.items() if value is not None}


def _lacks(split: Split, method: Learner) -> bool:
    return missing_for(split[0], method, False, split[1]) is not None


def _run_all(
    splits: Sequence[Split], random: int, own: Sequence[str], recipe: str, config: Config, place: Placement
) -> tuple[list[MethodResult], list[MethodResult]]:
    """Results over the random splits, which come first, and on the fixed one.

    Tables find a method by the name it has there, whatever settings it was run with; a note says those of a recipe.
    """
    both = [(name, memory) for memory in (False, True) for name in (*METHODS, *own)]
    alone = [(name, False) for name in (*ABLATION, *TUNED)]
    places = [(RANDOM, tuple(range(random)), both + alone), (FIXED, tuple(range(random, len(splits))), both)]
    named = [(protocol, *run, numbers) for protocol, numbers, runs in places if numbers for run in runs]
    jobs = [Job(protocol, config.method(name), memory, numbers) for protocol, name, memory, numbers in named]
    found: dict[MultiSession, list[MethodResult]] = {RANDOM: [], FIXED: []}
    for (protocol, name, *_), result in zip(named, run_jobs(splits, jobs, place, bar="sessions"), strict=True):
        said = name in BEYOND or recipe in CONFIGS
        note = [f"on recipe '{recipe}' run as {result.method}."] if said and result.method != name else []
        found[protocol].append(replace(result, method=name, notes=(*result.notes, *note)))
    return found[RANDOM], found[FIXED]


def _figures(results: Sequence[MethodResult], seeds: Sequence[int]) -> list[ReportFigure]:
    """The paper's pictures: curves with memory, heat maps and weight spaces without."""
    without = {result.method: result for result in results if not result.memory}
    where = f" Split random-{seeds[0]}"
    over = f" {splits_sentence(seeds)}" + (" One split has no interval." if len(seeds) == 1 else "")
    captions = {
        over: curve_figures([result for result in results if result.memory], published().curves),
        f"{where}.": heatmap_figures([without["finetune"], without["subspace"]]),
        f"{where}, after session 1.": weight_space_figures([without["subspace"], without["semantic"]]),
    }
    return [replace(f, caption=f"{f.caption}{text}") for text, figures in captions.items() for f in figures]
