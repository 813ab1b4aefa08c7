"""``subspan reproduce single-session``: the paper's second table, made anew from feature files."""

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from subspan.cli import experiments, reproduce
from subspan.cli.facts import run_facts
from subspan.cli.flags import Values, with_flags
from subspan.cli.inputs import embeddings_of, named
from subspan.cli.reproduce_systems import (
    PARTS,
    FeaturesOption,
    MarkdownOption,
    PartsOption,
    ReportOption,
    SystemsOption,
    chosen_systems,
    episode_settings,
    part_of,
    stored_episodes,
)
from subspan.experiments.config import PACKAGED, Config, Setting
from subspan.experiments.episodes import Episodes
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import ProtocolError, missing_for
from subspan.experiments.report.figures import ReportFigure, weight_space_picture
from subspan.experiments.report.html import write_page
from subspan.experiments.report.render import to_console
from subspan.experiments.single_session import SingleSession
from subspan.experiments.single_session_runs import Cell, run_cells
from subspan.features.feature_set import FeatureFileError, FeatureSet
from subspan.files.arrays import SUFFIXES
from subspan.paper.costs import TrainingCost
from subspan.paper.document import PAPER, single_session_section, write_section
from subspan.paper.document import SINGLE_SESSION as NAME
from subspan.paper.multi_session_tables import BEYOND
from subspan.paper.published import published
from subspan.paper.single_session_tables import (
    DATA,
    DELTA_CAVEAT,
    EpisodeRun,
    costs_table,
    episodes_table,
    settings_table,
)
from subspan.progress import Progress

PROTOCOL = SingleSession()
PICTURED = {"Subspace", "Semantic subspace (label)"}  # 5-shot: moving and fixed targets


@dataclass(frozen=True)
class Half:
    """One data set of the table."""

    data: str
    split: str  # as the feature file names it
    base_count: int
    novel_count: int

    @property
    def name(self) -> str:
        return f"{NAME}-{self.data}"

    def config(self, recipe: str) -> str:
        """The packaged settings: a recipe's own where it has some, else those of the paper's."""
        own = f"{self.name}-{recipe}"
        return own if own in PACKAGED else self.name


HALVES = (Half("mini", "ravi", 64, 20), Half("tiered", "tiered", 200, 160))


@experiments.command()
@with_flags(placement=Placement)
def single_session(
    report: ReportOption = None,
    features: FeaturesOption = None,
    markdown: MarkdownOption = None,
    config: Annotated[
        str | None, typer.Option(help="Settings of methods instead of the packaged ones; for one data set only.")
    ] = None,
    recipe: Annotated[str, typer.Option(help="Whose features to take: the first part of the name.")] = PAPER,
    data: Annotated[str | None, typer.Option(help="mini or tiered; default what the folder has.")] = None,
    count: Annotated[int, typer.Option(help="Episodes.")] = PROTOCOL.count,
    seed: Annotated[int, typer.Option(help="Of the episodes and of the rows' start.")] = PROTOCOL.seed,
    episodes: Annotated[
        Path | None, typer.Option(help="Replay the episodes of this file; for one data set only.")
    ] = None,
    episodes_out: Annotated[
        Path | None, typer.Option(help="Write the episodes for others to replay (.safetensors); for one data set only.")
    ] = None,
    systems: SystemsOption = None,
    parts: PartsOption = None,
    *,
    placement: Values,
) -> None:
    """Rebuild the single-session table and its two pictures from feature files: published values beside ours.

    The folder's RECIPE-ravi gives the miniImageNet half, RECIPE-tiered (whoever has the images) the tieredImageNet
    half. Settings that the paper does not give, and all of a recipe whose head they do not fit, were chosen on
    development classes and are marked. Without --report and --markdown all tables are printed.

    Examples:

        subspan reproduce single-session --report report

        subspan reproduce single-session --device cuda --markdown REPRODUCIBILITY.md

        subspan reproduce single-session --systems all

        subspan reproduce single-session --recipe strong --markdown REPRODUCIBILITY.md   # a section of its own

        subspan reproduce single-session --episodes-out episodes.safetensors   # for another system to see the same ones
    """
    place = Placement(**placement)
    wanted = chosen_systems(systems, NAME) if systems else []
    folder = reproduce.find_folder(features, Path.cwd())
    found = find_halves(folder, recipe, data)
    if len(found) > 1 and (config or episodes or episodes_out):
        raise ProtocolError("--config, --episodes and --episodes-out are for one data set; choose it with --data")
    protocol = dataclasses.replace(PROTOCOL, count=count, seed=seed)
    began = time.perf_counter()
    console = Console(stderr=True)
    tables, figures, used, missing = [], [], {}, []
    for half, path in found.items():
        loaded = load_half(path, half)
        settings = Config.load(config or half.config(recipe), NAME)
        complete = [dataclasses.replace(one, shots=one.shots or protocol.shots) for one in settings.settings]
        able, unable = _able(complete, loaded)
        drawn = _episodes(protocol, loaded, able, episodes, episodes_out)
        shots = sorted({setting.shots or protocol.shots for setting in able})
        place_of_parts = parts or folder.parent / PARTS
        beside, left_out = episode_settings(wanted, loaded, place_of_parts, shots)
        stored, absent = stored_episodes(wanted, place_of_parts, drawn, shots, recipe)
        runs = _run(protocol, loaded, [*able, *beside], drawn, place, console)
        missing += [f"{DATA[half.data]}: {sentence}" for sentence in (*unable, *left_out, *absent)]
        tables += [
            episodes_table(half.data, [*runs, *stored], published(), notes_on(loaded, recipe, count)),
            costs_table(half.data, [*runs, *stored]),
            settings_table(half.data, able, str(settings.about.get("chosen", "chosen by the user"))),
        ]
        figures += _pictures(runs, half) if report is not None else []
        if loaded.head == "cosine" and not config and half.config(recipe) == half.name:
            missing.append(f"{DATA[half.data]}: settings for a cosine head; those for a linear one were taken.")
        used |= {f"settings, {DATA[half.data]}": config or f"{half.config(recipe)}, which comes with the package"}
        used |= {"recipe of the base sessions": recipe}
        used |= {f"episodes, {DATA[half.data]}": f"hash {drawn.protocol} on items {drawn.items}"}
    missing += [f"No feature file {recipe}-{half.split} of {DATA[half.data]}." for half in HALVES if half not in found]
    facts = {**run_facts(protocol, place.device, time.perf_counter() - began), "cores": reproduce.cores(), **used}
    for one in tables if report is None and markdown is None else tables[:1]:
        Console(width=max(120, Console().width)).print(to_console(one.table, decimals=2))
    if report is not None:
        title = "Subspan: the paper's single-session experiments" + ("" if recipe == PAPER else f", recipe {recipe}")
        page = write_page(
            report, title=title, findings=[DELTA_CAVEAT, *missing], tables=tables, figures=figures, facts=facts
        )
        typer.echo(f"Report: {page}")
    if markdown is not None:
        write_section(markdown, single_session_section(recipe), tables, missing, facts)
        typer.echo(f"Markdown: {markdown}")


def find_halves(folder: Path, recipe: str, data: str | None) -> dict[Half, Path]:
    """The feature file of each half of the table that the folder has, or of the one asked for."""
    if data is not None and data not in DATA:
        raise ProtocolError(f"--data must be one of {', '.join(DATA)}; got '{data}'")
    wanted = [half for half in HALVES if data in (None, half.data)]
    files: dict[Half, Path] = {}
    for half, ending in product(wanted, SUFFIXES):
        path = folder / f"{recipe}-{half.split}{ending}"
        if path.is_file() and half in files:
            raise FeatureFileError(f"'{files[half]}' and '{path}' are two files of one split; remove one")
        if path.is_file():
            files[half] = path
    if not files:
        names = " or ".join(f"{recipe}-{half.split}" for half in wanted)
        raise FeatureFileError(f"'{folder}' has no feature file {names} ({' or '.join(SUFFIXES)})")
    return files


def load_half(path: Path, half: Half) -> FeatureSet:
    """A feature file, if it is of the novel classes of the split its name says."""
    features = named(FeatureSet.load(path))
    contents = features.meta.get("contents")
    told = features.meta.get("split", half.split)
    if str(told).partition(":")[0] != half.split or (isinstance(contents, dict) and contents.get("novel") != "novel"):
        raise FeatureFileError(
            f"'{path}' is named after the novel classes of {half.split} but was made from other data"
        )
    if (features.base_count, features.novel_count) != (half.base_count, half.novel_count):
        raise FeatureFileError(
            f"'{path}' has {features.base_count} base and {features.novel_count} novel classes; {DATA[half.data]} has "
            f"{half.base_count} and {half.novel_count}"
        )
    return features


def notes_on(features: FeatureSet, recipe: str, count: int) -> list[str]:
    """What of the features makes ours differ from the paper's."""
    fewest = min(int((features.base_test_labels == c).sum()) for c in range(features.base_count))
    accuracy = features.meta.get("session0_test")
    at = f" Session 0 is at {accuracy:.2f} % on these." if isinstance(accuracy, float) else ""
    notes = [
        f"Base queries: ours are held out of each base class's own images ({fewest} of them, which the network did not "
        f"see); the paper trains on all and asks about other ImageNet images.{at} Network by recipe '{recipe}'."
    ]
    if recipe != PAPER:
        notes.append(
            f"Published and quoted rows stand on other networks than this one: what the paper's own recipe, '{PAPER}', "
            "gives is in its own section."
        )
    if count != PROTOCOL.count:
        notes.append(f"Only {count} episodes; the paper has {PROTOCOL.count}.")
    return notes


def _able(settings: Sequence[Setting], features: FeatureSet) -> tuple[list[Setting], list[str]]:
    """The settings without methods of our own whose arrays the file lacks, and a sentence for each of these."""
    reasons = {
        number: reason
        for number, setting in enumerate(settings)
        if setting.method in BEYOND and (reason := missing_for(features, setting.create(), False, None))
    }
    able = [setting for number, setting in enumerate(settings) if number not in reasons]
    if reasons and not able:
        raise ProtocolError(next(iter(reasons.values())))
    return able, [f"{settings[number].name}, {settings[number].shots}-shot: {reasons[number]}." for number in reasons]


def _episodes(
    protocol: SingleSession,
    features: FeatureSet,
    settings: Sequence[Setting],
    replayed: Path | None,
    out: Path | None,
) -> Episodes:
    """The episodes with the most shots that a setting asks for, drawn or read, and written where wanted."""
    most = max((setting.shots or protocol.shots for setting in settings), default=protocol.shots)
    if replayed is not None:
        drawn = Episodes.load(replayed)
        drawn.check(features)
    else:
        drawn = dataclasses.replace(protocol, shots=most).draw(features)
    if out is not None:
        typer.echo(f"Episodes: {drawn.save(out)}")
    return drawn


def _run(
    protocol: SingleSession,
    features: FeatureSet,
    settings: Sequence[Setting],
    episodes: Episodes,
    place: Placement,
    console: Console,
) -> list[EpisodeRun]:
    cells = [Cell(one.create(), one.shots or protocol.shots, one.embeddings) for one in settings]
    with Progress(console) as bar:
        task = bar.add_task("episodes", total=len(cells) * len(episodes))
        results = run_cells(
            protocol,
            features,
            cells,
            place,
            embeddings=embeddings_of(features, settings),
            episodes=episodes,
            on_episodes=lambda done: bar.advance(task, done),
        )
    trainings = [TrainingCost.of_parts([part_of(cell.method, features)]) for cell in cells]
    return [EpisodeRun(*one) for one in zip(settings, results, trainings, strict=True)]


def _pictures(runs: Sequence[EpisodeRun], half: Half) -> list[ReportFigure]:
    """The weight space of the first episode with moving and with fixed targets."""
    shots = max(run.result.shots for run in runs)
    pictures = [
        weight_space_picture(f"{run.setting.name}, {DATA[half.data]}, {shots}-shot, first episode", space)
        for run in runs
        if run.setting.name in PICTURED and run.result.shots == shots and (space := run.result.weight_space) is not None
    ]
    return [dataclasses.replace(one, name=f"{half.name}-{one.name}") for one in pictures]
