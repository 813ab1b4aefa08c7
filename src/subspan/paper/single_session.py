"""The paper's single-session experiments with one recipe: from its feature files to tables and two pictures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from subspan.experiments.config import PACKAGED, Config, Setting
from subspan.experiments.episodes import Episodes
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import ProtocolError, missing_for
from subspan.experiments.named_features import embeddings_of
from subspan.experiments.report.figures import ReportFigure, weight_space_picture
from subspan.experiments.results import EpisodeResult
from subspan.experiments.runs import Cell, run_cells
from subspan.experiments.single_session import SingleSession
from subspan.features.feature_set import FeatureFileError, FeatureSet
from subspan.files.arrays import SUFFIXES
from subspan.paper.pages import Section
from subspan.paper.published import SINGLE_SESSION, published
from subspan.paper.sources import Sources, find_file, load, settings_file
from subspan.paper.systems import chosen_systems, episode_settings, part_of, row_of, stored_episodes
from subspan.paper.tables.runs import Run, cost_of
from subspan.paper.tables.single_session import DATA, costs_table, episodes_table, settings_table
from subspan.values import option

PROTOCOL = SingleSession()
PICTURED = {"Subspace", "Semantic subspace (label)"}  # 5-shot: moving and fixed targets


@dataclass(frozen=True)
class Half:
    """One data set of the table."""

    data: str
    split: str  # as the feature file names it
    classes: tuple[int, int]  # base and novel

    def config(self, recipe: str) -> str:
        """The packaged settings: a recipe's own where it has some, else those of the paper's."""
        usual = f"{SINGLE_SESSION}-{self.data}"
        return own if (own := f"{usual}-{recipe}") in PACKAGED else usual


HALVES = (Half("mini", "ravi", (64, 20)), Half("tiered", "tiered", (200, 160)))


@dataclass(frozen=True)
class Chosen:
    """Which episodes of which half."""

    data: str | None = option(None, "mini or tiered; default what the folder has")
    count: int | None = option(None, "episodes; default 2000")
    seed: int = option(0, "of the episodes and of the rows' start")
    episodes: Path | None = option(None, "replay the episodes of this file; for one data set only")
    episodes_out: Path | None = option(
        None, "write the episodes for others to replay (.safetensors); for one data set only"
    )


def make(sources: Sources, place: Placement, chosen: Chosen, recipe: str) -> Section:
    """All tables and pictures of a recipe, of each half of the table whose file a folder has."""
    count = PROTOCOL.count if chosen.count is None else chosen.count
    protocol = replace(PROTOCOL, count=count, seed=chosen.seed)
    wanted = chosen_systems(sources.systems, SINGLE_SESSION)
    folder, parts = sources.folders()
    files = find_halves(folder, recipe, chosen.data)
    if len(files) > 1 and (sources.config or chosen.episodes or chosen.episodes_out):
        raise ProtocolError("--config, --episodes and --episodes-out are for one data set; choose it with --data")
    tables, figures, facts, every_file = [], [], {}, [*files.values()]
    missing = [f"No feature file {recipe}-{half.split} of {DATA[half.data]}." for half in HALVES if half not in files]
    for half, path in files.items():
        title, source = DATA[half.data], sources.config or half.config(recipe)
        loaded = load(path, half.split, half.classes)
        settings = Config.load(source, SINGLE_SESSION)
        of_shots = [replace(one, shots=one.shots or protocol.shots) for one in settings.settings]
        vectors = embeddings_of([loaded], of_shots)[0]
        lacks = [missing_for(loaded, one.create(), False, vectors.get(one.embeddings or "")) for one in of_shots]
        able = [one for one, reason in zip(of_shots, lacks, strict=True) if reason is None]
        if not able:
            raise ProtocolError(str(lacks[0]))
        unable = [f"{one.name}, {one.shots}-shot: {r}." for one, r in zip(of_shots, lacks, strict=True) if r]
        shots = sorted({one.shots for one in able if one.shots})
        if chosen.episodes is None:
            drawn = replace(protocol, shots=max(shots)).draw(loaded)
        else:
            drawn = Episodes.load(chosen.episodes)
            drawn.check(loaded)
        if chosen.episodes_out is not None:
            Console(stderr=True).print(f"Episodes: {drawn.save(chosen.episodes_out)}", soft_wrap=True)
        beside, left_out = episode_settings(wanted, loaded, parts, shots)
        stored, absent = stored_episodes(wanted, parts, drawn, shots, recipe)
        runs = [*_run(protocol, loaded, [*able, *beside], drawn, place), *stored]
        tables += [
            episodes_table(half.data, runs, published(), notes_on(loaded, recipe, protocol.count)),
            costs_table(half.data, runs),
            settings_table(half.data, able, str(settings.about.get("chosen", "chosen by the user"))),
        ]
        figures += _pictures(runs, half, max(shots))
        every_file += [settings_file(source), *dict.fromkeys(file for run in runs for file in run.files)]
        missing += [f"{title}: {sentence}" for sentence in (*unable, *left_out, *absent)]
        if loaded.head == "cosine" and source == f"{SINGLE_SESSION}-{half.data}":
            missing.append(f"{title}: settings for a cosine head; those for a linear one were taken.")
        facts[f"settings, {title}"] = source if sources.config else f"{source}, which comes with the package"
        facts[f"episodes, {title}"] = f"hash {drawn.protocol} on items {drawn.items}"
    return Section(
        name=SINGLE_SESSION,
        recipe=recipe,
        protocol=protocol,
        tables=tables,
        figures=figures,
        missing=missing,
        facts=facts,
        sources=every_file,
    )


def find_halves(folder: Path, recipe: str, data: str | None) -> dict[Half, Path]:
    """The feature file of each half of the table that the folder has, or of the one asked for."""
    if data is not None and data not in DATA:
        raise ProtocolError(f"--data must be one of {', '.join(DATA)}; got '{data}'")
    wanted = [half for half in HALVES if data in (None, half.data)]
    files = {half: path for half in wanted if (path := find_file(folder, f"{recipe}-{half.split}"))}
    if not files:
        names = " or ".join(f"{recipe}-{half.split}" for half in wanted)
        raise FeatureFileError(f"'{folder}' has no feature file {names} ({' or '.join(SUFFIXES)})")
    return files


def notes_on(features: FeatureSet, recipe: str, count: int) -> list[str]:
    """What of the features makes ours differ from the paper's."""
    fewest = min(int((features.base_test_labels == c).sum()) for c in range(features.base_count))
    accuracy = features.meta.get("session0_test")
    at = f" Session 0 is at {accuracy:.2f} % on these." if isinstance(accuracy, float) else ""
    few = f" Only {count} episodes; the paper has {PROTOCOL.count}." if count != PROTOCOL.count else ""
    return [
        f"Base queries: ours are held out of each base class's own images ({fewest} of them, which the network did not "
        f"see); the paper trains on all and asks about other ImageNet images.{at} Network by recipe '{recipe}'.{few}",
        "Descriptions: all-MiniLM-L6-v2 on the gloss of a class's own sense; the paper has stsb-roberta-large.",
    ]


def _run(
    protocol: SingleSession,
    features: FeatureSet,
    settings: Sequence[Setting],
    episodes: Episodes,
    place: Placement,
) -> list[Run[EpisodeResult]]:
    cells = [Cell(one.create(), one.shots or protocol.shots, one.embeddings) for one in settings]
    vectors = embeddings_of([features], settings)[0]
    results = run_cells(protocol, features, cells, place, embeddings=vectors, episodes=episodes, bar="episodes")
    parts = [part_of(cell.method, features) for cell in cells]
    costs = [cost_of([part] if part else []) for part in parts]
    return [
        Run(one.name, result, row=row_of(one.name), **cost)
        for one, result, cost in zip(settings, results, costs, strict=True)
    ]


def _pictures(runs: Sequence[Run[EpisodeResult]], half: Half, shots: int) -> list[ReportFigure]:
    """The weight space of the first episode with moving and with fixed targets."""
    pictures = [
        weight_space_picture(f"{run.name}, {DATA[half.data]}, {shots}-shot, first episode", space)
        for run in runs
        if run.name in PICTURED and run.result.shots == shots and (space := run.result.weight_space) is not None
    ]
    return [replace(one, name=f"{SINGLE_SESSION}-{half.data}-{one.name}") for one in pictures]
