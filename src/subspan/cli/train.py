"""``subspan train``, ``subspan extract`` and ``subspan pack``: from photographs to a feature file."""

import dataclasses
import os
from collections.abc import Callable, Set
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from subspan.backbones.network import Network
from subspan.cli import app
from subspan.cli.facts import version
from subspan.cli.flags import Values, with_flags
from subspan.cli.train_network import network_system, store_result
from subspan.cli.train_system import embeddings_for, train_system, trained_system
from subspan.experiments.named_features import named
from subspan.features.feature_set import FeatureFileError, FeatureSet
from subspan.files.arrays import check_suffix
from subspan.images.imageset import ImageSet
from subspan.images.read import read_images
from subspan.images.splits.parse import SPLITS, SplitRecipe, parse_split
from subspan.images.splits.split import Split
from subspan.learners.parts.system import TrainedSystem
from subspan.learners.parts.training_features import TrainingFeatures
from subspan.learners.parts.training_run import Training
from subspan.train.collect import Contents, collect, collect_base
from subspan.train.device import find_device
from subspan.train.extract import Extractor, Viewing
from subspan.train.job import Job
from subspan.train.pack import Storage, feature_set
from subspan.train.recipe import RECIPES, Recipe, find_recipe, overridden, varied_values
from subspan.train.run import RunSettings, load_run, results_of
from subspan.train.trainer import Outcome, Runtime, train

DataOption = Annotated[Path, typer.Option("--data", help="images: zips or folders of classes, or another known format")]
ListsOption = Annotated[Path | None, typer.Option("--lists", help="list file of a published split, if not beside data")]
RunOption = Annotated[Path, typer.Option("--run", help="folder of a finished run")]
RunSizeOption = Annotated[
    int | None,
    typer.Option("--image-size", help="side of the images in pixels; default: the run's", show_default=False),
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N")]

# The options that the training of a system uses.
_SETTINGS = {field.name for field in dataclasses.fields(Training) if "help" in field.metadata}
_WITH_FILE = _SETTINGS | {"system", "features", "out", "seed", "resume", "device"}
_WITH_RUN = _WITH_FILE - {"features", "draws", "signal"} | {"run", "data", "lists"}


@app.command("train")
@with_flags(recipe=Recipe, runtime=Runtime, training=Training)
def train_command(
    context: typer.Context,
    features: Annotated[
        Path | None, typer.Argument(metavar="[FEATURES]", help="with --system: the feature file of the base classes")
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", help="images: zips or folders of classes, or another known format")
    ] = None,
    split: Annotated[
        list[str] | None, typer.Option("--split", help=f"{', '.join(SPLITS)}; several are trained at once")
    ] = None,
    system: Annotated[
        str | None,
        typer.Option("--system", help="train the part of a system, NAME[:option=value,...], not a base session"),
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="with --system and --data: a finished run, for its real features")
    ] = None,
    embeddings: Annotated[
        str | None, typer.Option("--embeddings", help="with --system: embeddings of the classes, as for bench")
    ] = None,
    recipe_name: Annotated[str, typer.Option("--recipe", help=f"one of {', '.join(RECIPES)}")] = "paper",
    out: Annotated[
        Path | None,
        typer.Option("--out", help="folder of the run, one subfolder each for several; the file of a system's part"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="of weights, order and augmentation")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the folder's checkpoint")] = False,
    lists: ListsOption = None,
    validation: Annotated[int, typer.Option("--validation", help="images per base class to hold out, if not 0")] = 0,
    pack: Annotated[Path | None, typer.Option("--pack", help="also write int8 feature files into a folder")] = None,
    *,
    recipe: Values,
    runtime: Values,
    training: Values,
) -> None:
    """Train the base session of one or several splits, or the part of a system that is trained on the base classes.

    Example: subspan train --data mini-imagenet --split random:1 --recipe paper --out runs/random-1

    Example: subspan train --system lwof features.safetensors --out lwof.safetensors

    Example: subspan train --system topic --run runs/random-1 --data mini-imagenet --out topic-random-1.json
    """
    if system is not None and (moving := network_system(system)) is not None:
        if run is None or data is None or out is None:
            raise ValueError(f"system '{moving.name}' moves the network: it needs --run, --data and --out FILE.json")
        _refuse_unused(context, _WITH_RUN, moving.name)
        found, device = _open(run, data, lists), find_device(Runtime(**runtime).device)
        trained = found.network, found.settings
        store_result(moving, training, seed, trained, found.images, found.split, out, device, resume=resume)
        return
    if system is not None:
        chosen_system, device = trained_system(system), find_device(Runtime(**runtime).device)
        if out is None:
            raise ValueError("the part of a system is written to a file; name it with --out FILE.npz or .safetensors")
        if (features is None) == (run is None):
            raise ValueError(
                "a system is trained on a feature file (draws) or on --run and --data (real features); name one"
            )
        used = _WITH_FILE if run is None else _WITH_RUN
        _refuse_unused(context, used | (chosen_system.needs & {"embeddings"}), chosen_system.name)
        make = _training_features(chosen_system, features, run, data, lists, embeddings, device)
        train_system(chosen_system, training, seed, make, out, device, resume=resume)
        return
    if data is None or not split:
        raise ValueError("a base session is trained on images; name them with --data and their split with --split")
    if features is not None or run is not None or embeddings is not None or training:
        raise ValueError(
            "a feature file, --run, --embeddings and the settings of a system's part go with --system NAME"
        )
    if twice := [name for name in split if split.count(name) > 1]:
        raise ValueError(f"split {twice[0]!r} is named twice; each has a folder of its own")
    chosen = overridden(find_recipe(recipe_name), **recipe)
    find_device(Runtime(**runtime).device)
    recipes = [_split_recipe(name, lists, validation) for name in split]
    images = read_images(data, size=chosen.stored_size)
    splits = [each.make(images) for each in recipes]
    base = out or Path("runs") / f"{recipe_name}-{'-'.join(_slug(name) for name in split)}"
    folders = [base] if len(split) == 1 else [base / _slug(name) for name in split]
    jobs = [Job.from_split(images, made, folder, seed) for made, folder in zip(splits, folders, strict=True)]
    about = {"validation": validation, "image_size": chosen.stored_size}
    outcomes = train(images.images, jobs, chosen, Runtime(**runtime), resume=resume, about=about)
    if os.environ.get("RANK", "0") != "0":  # under torchrun the first process tells and writes
        return
    for outcome, made in zip(outcomes, splits, strict=True):
        folder = outcome.job.folder
        _tell(outcome, chosen)
        if pack is not None:
            done, device = _Run(folder, *load_run(folder), images, made), str(outcome.device)
            _pack(done, device, Viewing(), Contents(), pack / f"{folder.name}.safetensors", Storage())


@app.command("extract")
@with_flags(contents=Contents, viewing=Viewing)
def extract_command(
    run: RunOption,
    data: DataOption,
    lists: ListsOption = None,
    image_size: RunSizeOption = None,
    device: DeviceOption = "auto",
    *,
    contents: Values,
    viewing: Values,
) -> None:
    """Compute the features of a run's split and keep them in the run's folder.

    Example: subspan extract --run runs/random-1 --data mini-imagenet
    """
    wanted = Contents(**contents)
    found = _open(run, data, lists, image_size)
    collected = collect(found.extractor(device, Viewing(**viewing)), found.images, found.split, wanted)
    support = "x".join(map(str, collected.novel_support.shape[:3]))
    Console().print(
        f"{found.settings.split}: features of {collected.base_count.sum()} training images, "
        f"{sum(map(len, collected.base_test))} base and {sum(map(len, collected.novel_test))} novel test images and "
        f"{support} support copies in {run / 'features'}",
        highlight=False,
        soft_wrap=True,
    )


@app.command("pack")
@with_flags(contents=Contents, viewing=Viewing, storage=Storage)
def pack_command(
    run: RunOption,
    data: DataOption,
    out: Annotated[Path, typer.Option("--out", help="the feature file to write, .safetensors or, compressed, .npz")],
    lists: ListsOption = None,
    image_size: RunSizeOption = None,
    device: DeviceOption = "auto",
    covariance: Annotated[
        bool | None,
        typer.Option(
            "--covariance/--no-covariance",
            help="store the covariance of the base training features; default: where it takes at most 1 MB",
            show_default=False,
        ),
    ] = None,
    *,
    contents: Values,
    storage: Values,
    viewing: Values,
) -> None:
    """Write the feature file of a run, which `subspan bench` reads; features already extracted are used again.

    Example: subspan pack --run runs/random-1 --data mini-imagenet --out random-1.safetensors
    """
    check_suffix(out, "a feature file", FeatureFileError)
    wanted = Contents(**contents, covariance=covariance)
    found = _open(run, data, lists, image_size)
    _pack(found, device, Viewing(**viewing), wanted, out, Storage(**storage))


def _training_features(
    system: TrainedSystem,
    file: Path | None,
    run: Path | None,
    data: Path | None,
    lists: Path | None,
    embeddings: str | None,
    device: torch.device,
) -> Callable[[Training], TrainingFeatures]:
    """How to get training features, given the settings: real ones of a run, or draws."""
    if file is not None:
        features = named(FeatureSet.load(file))
        vectors = embeddings_for(system, features, embeddings)

        def drawn(training: Training) -> TrainingFeatures:
            if training.learn_from != "training":
                raise ValueError("a feature file has the statistics of training images only; --learn-from needs --run")
            return TrainingFeatures.drawn(features, training.draws, training.seed, vectors, signal=training.signal)

        return drawn
    assert run is not None
    if data is None:
        raise ValueError("the real features of a run need its images; name them with --data")
    found = _open(run, data, lists)
    images, split, extractor = found.images, found.split, found.extractor(str(device), Viewing())
    features = _features(found, extractor, Contents())
    vectors = embeddings_for(system, features, embeddings)

    def real(training: Training) -> TrainingFeatures:
        chosen = split.base_train if training.learn_from == "training" else split.base_validation
        if len(chosen) == 0:
            raise ValueError(f"split {split.name} holds no {training.learn_from} images out to learn from")
        plain, turned = collect_base(extractor, images, split, chosen, turned=system.uses_turned)
        return TrainingFeatures.real(features, plain, turned, vectors)

    return real


def _refuse_unused(context: typer.Context, used: Set[str], system: str) -> None:
    """Refuse what was given on the command line and says nothing about the training of a system."""
    unused = [
        parameter.opts[0]
        for parameter in context.command.params
        if (name := parameter.name) is not None
        and name not in used
        and (origin := context.get_parameter_source(name)) is not None
        and origin.name == "COMMANDLINE"
    ]
    if unused:
        source = "a feature file" if "features" in used else "a run"
        raise ValueError(f"the training of system '{system}' on {source} takes no {', '.join(unused)}")


@dataclasses.dataclass(frozen=True, eq=False)
class _Run:
    """A finished run with the images and the split that it was trained on."""

    folder: Path
    network: Network
    settings: RunSettings
    images: ImageSet
    split: Split

    def extractor(self, device: str, viewing: Viewing) -> Extractor:
        return Extractor(
            self.network,
            self.settings.recipe,
            self.images.images,
            device=find_device(device),
            cache=self.folder / "features",
            viewing=viewing,
        )


def _open(run: Path, data: Path, lists: Path | None, image_size: int | None = None) -> _Run:
    """A run with its images, of another size if asked; images or a split that are not its own are refused."""
    network, settings = load_run(run)
    recipe = _split_recipe(settings.split, lists, int(settings.about.get("validation", 0)))
    size = settings.image_size if image_size is None else image_size
    settings.recipe.check_size(size)
    images = read_images(data, size=size)
    split = recipe.make(images)
    settings.check_trained_on(split)
    return _Run(run, network, settings, images, split)


def _features(run: _Run, extractor: Extractor, contents: Contents, made: dict[str, Any] | None = None) -> FeatureSet:
    collected = collect(extractor, run.images, run.split, contents)
    return named(feature_set(collected, run.network, run.images, run.split, run.settings, contents, made))


def _pack(run: _Run, device: str, viewing: Viewing, contents: Contents, out: Path, storage: Storage) -> None:
    extractor = run.extractor(device, viewing)
    made = {"session0_validation": results_of(run.folder).get("validation"), "version": version(), **extractor.about}
    features = _features(run, extractor, contents, made)
    out.parent.mkdir(parents=True, exist_ok=True)
    features.save(out, precision=storage.on_disk)
    queried, size = run.split.queried, out.stat().st_size / 1e6
    accuracy = f"session 0 at {features.meta[f'session0_{queried}']:.2f} %" + " (validation)" * (queried != "test")
    Console().print(f"{out}: {size:.2f} MB, {accuracy}", highlight=False, soft_wrap=True)


def _split_recipe(name: str, lists: Path | None, validation: int) -> SplitRecipe:
    recipe = parse_split(name, lists)
    if validation:
        if not dataclasses.is_dataclass(recipe) or not hasattr(recipe, "validation"):
            raise typer.BadParameter(f"split {name!r} cannot hold images out for validation")
        recipe = dataclasses.replace(recipe, validation=validation)  # pyright: ignore[reportArgumentType]
    return recipe


def _slug(name: str) -> str:
    return name.replace(":", "-")


def _tell(outcome: Outcome, recipe: Recipe) -> None:
    joined = f"{recipe.members} networks joined, " if recipe.joined else ""
    lines = [
        f"{outcome.job.name}: {joined}{_accuracies(outcome)}; {outcome.seconds:.1f} s, "
        f"{outcome.images_per_second:,.0f} images/s ({outcome.execution or 'trained before'}); {outcome.job.folder}"
    ]
    for i, member in enumerate(outcome.members if recipe.members > 1 else ()):
        own = "".join(f", {name} {value}" for name, value in varied_values(recipe.varied, i).items())
        lines.append(f"  {member.job.folder.name}: {_accuracies(member)}{own}")
    Console().print("\n".join(lines), highlight=False, soft_wrap=True)


def _accuracies(outcome: Outcome) -> str:
    accuracies = {"validation": outcome.validation, "test": outcome.test}
    return ", ".join(f"{what} {value:.2f} %" for what, value in accuracies.items() if value == value)
