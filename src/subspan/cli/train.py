"""``subspan train``: the base sessions of splits, or what a published system trains on the base classes."""

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from subspan.cli.parts.flags import Values, given_options, with_flags
from subspan.cli.parts.runs import DATA, ListsOption, find_split
from subspan.cli.parts.train_system import Source, train_a_system
from subspan.images.read import read_images
from subspan.images.splits.parse import SPLITS
from subspan.learners.training.run import Training
from subspan.train.parts.device import find_device
from subspan.train.recipe import RECIPES, Recipe, find_recipe, overridden, varied_values
from subspan.train.run import Job
from subspan.train.trainer import Outcome, Runtime
from subspan.train.trainer import train as train_networks

# What people set; all other fields of these records go by --set.
_SHOWN = ("backbone", "head", "members", "epochs", "batch_size", "learning_rate", "device")


@with_flags(recipe=Recipe, runtime=Runtime, training=Training, shown=_SHOWN)
def train(
    context: typer.Context,
    features: Annotated[
        Path | None, typer.Argument(metavar="[FEATURES]", help="with --system: the feature file of the base classes")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", help=DATA)] = None,
    split: Annotated[
        list[str] | None, typer.Option("--split", help=f"{', '.join(SPLITS)}; several are trained in turn")
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
    if system is not None:
        source, device = Source(features, run, data, lists, embeddings), Runtime(**runtime).device
        given = given_options(context, recipe | runtime | training)
        train_a_system(system, source, training, seed, out, device, resume=resume, given=given)
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
    recipes = [find_split(name, lists, validation) for name in split]
    images = read_images(data, size=chosen.stored_size)
    splits = [each.make(images) for each in recipes]
    base = out or Path("runs") / f"{recipe_name}-{'-'.join(_slug(name) for name in split)}"
    folders = [base] if len(split) == 1 else [base / _slug(name) for name in split]
    jobs = [Job.from_split(images, made, folder, seed) for made, folder in zip(splits, folders, strict=True)]
    about = {"validation": validation, "image_size": chosen.stored_size}
    outcomes = train_networks(images.images, jobs, chosen, Runtime(**runtime), resume=resume, about=about)
    if os.environ.get("RANK", "0") != "0":  # under torchrun the first process tells and writes
        return
    for outcome in outcomes:
        _tell(outcome, chosen)


def _slug(name: str) -> str:
    return name.replace(":", "-")


def _tell(outcome: Outcome, recipe: Recipe) -> None:
    results, joined = outcome.results, f"{recipe.members} networks joined, " if outcome.members else ""
    speed = f"{results['images_per_second']:,.0f} images/s ({results['execution'] or 'trained before'})"
    spent = f"{results['seconds']:.1f} s, {speed}; {outcome.job.folder}"
    lines = [f"{outcome.job.name}: {joined}{_accuracies(outcome)}; {spent}"]
    for i, member in enumerate(outcome.members):
        own = "".join(f", {name} {value}" for name, value in varied_values(recipe.varied, i).items())
        lines.append(f"  {member.job.folder.name}: {_accuracies(member)}{own}")
    Console().print("\n".join(lines), highlight=False, soft_wrap=True)


def _accuracies(outcome: Outcome) -> str:
    parts = [(name, outcome.results[name]) for name in ("validation", "test")]
    return ", ".join(f"{name} {value:.2f} %" for name, value in parts if value is not None)
