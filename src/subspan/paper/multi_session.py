"""The paper's multi-session experiments with one recipe: from its feature files to tables and pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console

from subspan.experiments.config import Config
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import missing_for
from subspan.experiments.multi_session import FIXED, RANDOM
from subspan.experiments.multi_session_runs import Job, Split, run_shown
from subspan.experiments.named_features import find_all_embeddings
from subspan.experiments.report.figures import ReportFigure, curve_figures, heatmap_figures, weight_space_figures
from subspan.experiments.results import MethodResult
from subspan.features.feature_set import FeatureFileError, FeatureSet
from subspan.learners.registry import spec_of
from subspan.paper.feature_folder import find_file, find_folder, load
from subspan.paper.multi_session_tables import (
    ABLATION,
    BEYOND,
    METHODS,
    SPLITS,
    TUNED,
    TrainedNetwork,
    beyond_table,
    fixed_split_table,
    networks_table,
    random_split_tables,
    reached_sentence,
    splits_sentence,
)
from subspan.paper.pages import MULTI_SESSION, PAPER, Section
from subspan.paper.published import published
from subspan.paper.systems import PARTS, chosen_systems, run_systems, stored_runs
from subspan.paper.systems_tables import SystemRun, cost_picture, systems_table

CLASSES = (60, 40)  # base and novel
CONFIGS = {"strong": "multi-session-strong"}  # packaged settings, for recipes that the defaults do not suit
BESIDE = ("subspace", "prototype", "calibrated")  # methods that stand in the tables of systems


def make(
    features: Path | None,
    recipe: str,
    *,
    place: Placement,
    console: Console,
    config: str | None = None,
    systems: str = "",
    parts_folder: Path | None = None,
) -> Section:
    """All tables and pictures of a recipe, from the files of a folder."""
    wanted = chosen_systems(systems, MULTI_SESSION)
    folder = find_folder(features, Path.cwd())
    files = _random_files(folder, recipe)
    if not files:
        raise FeatureFileError(
            f"'{folder}' has no feature file of the random splits 1 to {SPLITS} with recipe '{recipe}'; they are named "
            f"{recipe}-random-1.npz or {recipe}-random-1.safetensors and so on"
        )
    seeds = list(files)
    console.print(splits_sentence(seeds), soft_wrap=True)
    loaded = [load(path, f"random:{seed}", CLASSES) for seed, path in files.items()]
    fixed = find_file(folder, f"{recipe}-fixed")
    sources = [*files.values(), *([fixed] if fixed else [])]
    everything = [*loaded, *([load(fixed, "fixed", CLASSES)] if fixed else [])]
    pairs = list(zip(everything, find_all_embeddings(everything, None), strict=True))
    settings = config_for(recipe, Config(MULTI_SESSION, ()) if config is None else Config.load(config, MULTI_SESSION))
    on_random, on_fixed, beyond = _run_all(pairs, len(seeds), settings, console, place)
    on_random, on_fixed = ([_with_options(one, recipe, settings) for one in found] for found in (on_random, on_fixed))
    for note in dict.fromkeys(note for result in on_random for note in result.notes):
        console.print(f"Warning: {note}", style="yellow", soft_wrap=True)

    whole = [result for result in on_random if result.method not in BEYOND or len(beyond) == len(seeds)]
    main, *tables = random_split_tables(whole, seeds, published(), recipe)
    missing = _what_is_missing(recipe, seeds, fixed)
    if recipe == PAPER:
        others = {n.recipe: _random_files(folder, n.recipe) for n in published().networks if n.recipe != recipe}
        sources += [path for found in others.values() for path in found.values()]
        trained = [_trained(recipe, seed, one) for seed, one in zip(seeds, loaded, strict=True)]
        trained += [
            _trained(other, seed, load(path, f"random:{seed}", CLASSES))
            for other, found in others.items()
            for seed, path in found.items()
        ]
        tables.append(networks_table(trained, published()))
        silent = [f"{one.recipe}-random-{one.seed}" for one in trained if np.isnan(one.validation)]
        missing += [f"No validation accuracy of session 0 is recorded in {', '.join(silent)}."] if silent else []
    if on_fixed:
        tables.append(fixed_split_table({recipe: on_fixed}, published()))
    if beyond:
        own = [result if result.method in BEYOND else result.of_splits(beyond) for result in on_random]
        tables.append(beyond_table(own, [seeds[number] for number in beyond]))
    lacking = [path.name for number, path in enumerate(files.values()) if number not in beyond]
    if lacking:
        titles = " and ".join(BEYOND.values())
        missing.append(f"{titles}: {', '.join(lacking)} without what the method needs (base_covariance).")
    figures = _figures([result for result in on_random if result.method in METHODS], seeds)

    parts = parts_folder or folder.parent / PARTS
    on_splits = {f"random-{seed}": pair for seed, pair in zip(seeds, pairs, strict=False)}
    settings_of = [(RANDOM, on_splits, on_random), (FIXED, {"fixed": pairs[-1]}, on_fixed)]
    for protocol, splits, methods in settings_of if wanted else []:
        if not methods:
            continue
        runs = [SystemRun(one.method, one, "") for one in methods if one.method in BESIDE and not one.memory]
        ran, left_out = run_systems(wanted, protocol, splits, parts, place, console)
        kept, absent, read = stored_runs(wanted, protocol, list(splits), parts, recipe)
        runs += [*ran, *kept]
        sources += read
        missing += [*left_out, *absent]
        tables.append(systems_table(runs, published(), fixed=protocol is FIXED, recipe=recipe))
        figures += [cost_picture(runs)] if protocol is RANDOM else []
    facts = {
        "protocol on the fixed split": f"{FIXED}",
        "protocol hashes": f"{RANDOM.digest} (random splits), {FIXED.digest} (fixed split)",
        "settings": "; ".join(spec_of(one.create()) for one in settings.settings),
    }
    title = f"Subspan: the paper's multi-session experiments, recipe {recipe}"
    findings = [splits_sentence(seeds), reached_sentence(tables)]
    return Section(MULTI_SESSION, recipe, title, RANDOM, [main], tables, figures, findings, missing, facts, sources)


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


def _trained(recipe: str, seed: int, features: FeatureSet) -> TrainedNetwork:
    """Session 0 of a network, as its feature file says."""
    said = {key: features.meta.get(f"session0_{key}") for key in ("validation", "test")}
    return TrainedNetwork(recipe, seed, **{key: float(value) for key, value in said.items() if value is not None})


def _what_is_missing(recipe: str, seeds: Sequence[int], fixed: Path | None) -> list[str]:
    """What the tables would need and the folder does not have, in sentences."""
    absent = ", ".join(str(seed) for seed in range(1, SPLITS + 1) if seed not in seeds)
    sentences = [f"No feature files of recipe '{recipe}' for random splits {absent}."] if absent else []
    return sentences if fixed else [*sentences, "No feature file of the fixed split."]


def _run_all(
    pairs: list[Split], random_count: int, config: Config, console: Console, place: Placement
) -> tuple[list[MethodResult], list[MethodResult], tuple[int, ...]]:
    """Results over the random splits, which come first, and on the fixed one, and the splits of methods of our own.

    These run where the files have what they need.
    """

    def able(name: str, memory: bool, numbers: Sequence[int]) -> tuple[int, ...]:
        method = config.method(name)
        return tuple(
            n for n in numbers if name not in BEYOND or not missing_for(pairs[n][0], method, memory, pairs[n][1])
        )

    random, fixed = range(random_count), range(random_count, len(pairs))
    both = [(name, memory) for memory in (False, True) for name in (*METHODS, *BEYOND)]
    alone = [(name, False) for name in (*ABLATION, *TUNED) if name not in METHODS]
    runs = [(RANDOM, name, memory, able(name, memory, random)) for name, memory in both + alone]
    runs += [(FIXED, name, memory, able(name, memory, fixed)) for name, memory in both]
    runs = [run for run in runs if run[-1]]
    jobs = [Job(protocol, config.method(name), memory, numbers) for protocol, name, memory, numbers in runs]
    results = run_shown(pairs, jobs, place, console)
    # Tables find a method by the name it has there, whatever settings it was run with.
    found = [(run[0], replace(result, method=run[1])) for run, result in zip(runs, results, strict=True)]
    beyond = tuple(n for n in random if all(n in able(name, True, random) for name in BEYOND))
    on_random, on_fixed = ([one for made, one in found if made is protocol] for protocol in (RANDOM, FIXED))
    return on_random, on_fixed, beyond


def _with_options(result: MethodResult, recipe: str, config: Config) -> MethodResult:
    """A result with a note on its options: a method of ours, or one on features of a recipe with its own config."""
    name, spec = result.method, spec_of(config.method(result.method))
    if spec == name or not (name in BEYOND or recipe in CONFIGS):
        return result
    return replace(result, notes=(*result.notes, f"on recipe '{recipe}' run as {spec}."))


def _figures(results: Sequence[MethodResult], seeds: Sequence[int]) -> list[ReportFigure]:
    """The paper's pictures: curves with memory, heat maps and weight spaces without."""
    without: Mapping[str, MethodResult] = {result.method: result for result in results if not result.memory}
    where = f" Split random-{seeds[0]}"
    over = f" {splits_sentence(seeds)}" + (" One split has no interval." if len(seeds) == 1 else "")
    captions = {
        over: curve_figures([result for result in results if result.memory]),
        f"{where}.": heatmap_figures([without["finetune"], without["subspace"]]),
        f"{where}, after session 1.": weight_space_figures([without["subspace"], without["semantic"]]),
    }
    return [replace(f, caption=f"{f.caption}{text}") for text, figures in captions.items() for f in figures]
