"""Finished runs, with the images and the split that they were trained on, for the commands that go on from them."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from subspan.backbones.network import Network
from subspan.cli.parts.facts import version
from subspan.experiments.named_features import named
from subspan.features.feature_set import FeatureSet, Precision
from subspan.images.imageset import ImageSet
from subspan.images.read import read_images
from subspan.images.splits.parse import SplitRecipe, parse_split
from subspan.images.splits.split import Split
from subspan.pretrained.looking import BackboneLooks
from subspan.pretrained.registry import load_backbone
from subspan.train.collect import Contents
from subspan.train.extract import Extractor
from subspan.train.pack import feature_set
from subspan.train.parts.device import find_device
from subspan.train.run import RunSettings, load_run, record_of

DATA = "images: zips or folders of classes, or another known format"
ListsOption = Annotated[Path | None, typer.Option("--lists", help="list file of a published split, if not beside data")]


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A finished run with the images and the split that it was trained on."""

    folder: Path
    network: Network
    settings: RunSettings
    images: ImageSet
    split: Split

    def extractor(self, device: str, *, flip_average: bool = False) -> Extractor:
        return Extractor(
            self.network,
            self.settings.recipe,
            self.images.images,
            device=find_device(device),
            cache=self.folder / "features",
            flip_average=flip_average,
        )


def open_run(run: Path, data: Path, lists: Path | None, image_size: int | None = None) -> Run:
    """A run with its images, of another size if asked; images or a split that are not its own are refused."""
    network, settings = load_run(run)
    recipe = find_split(settings.split, lists, int(settings.about.get("validation", 0)))
    size = settings.image_size if image_size is None else image_size
    settings.recipe.check_size(size)
    images = read_images(data, size=size)
    split = recipe.make(images)
    settings.check_trained_on(split)
    return Run(run, network, settings, images, split)


def features_of(run: Run, extractor: Extractor, contents: Contents, made: dict[str, Any] | None = None) -> FeatureSet:
    about = {**run.settings.told(), **(made or {})}
    return named(feature_set(extractor, run.images, run.split, contents, run.network.head, about))


def write_features(run: Run, device: str, contents: Contents, out: Path, precision: Precision) -> None:
    extractor = run.extractor(device, flip_average=contents.flip_average)
    made = {
        "session0_validation": record_of(run.folder)["results"].get("validation"),
        "version": version(),
        **extractor.about,
    }
    save_features(features_of(run, extractor, contents, made), run.split, out, precision)


def write_backbone_features(
    backbone: str,
    data: Path,
    split: str,
    lists: Path | None,
    image_size: int | None,
    contents: Contents,
    out: Path,
    precision: Precision,
) -> None:
    """The feature file of a network that was not trained here."""
    network = load_backbone(backbone)
    images = read_images(data, size=image_size or network.preprocessing.resize)
    made = find_split(split, lists, 0).make(images)
    about = {"backbone": network.about(), "version": version()}
    features = feature_set(BackboneLooks(network, images.images), images, made, contents, meta=about)
    save_features(named(features), made, out, precision)


def save_features(features: FeatureSet, split: Split, out: Path, precision: Precision) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    features.save(out, precision=precision)
    queried, size = split.queried, out.stat().st_size / 1e6
    accuracy = f"session 0 at {features.meta[f'session0_{queried}']:.2f} %" + " (validation)" * (queried != "test")
    Console().print(f"{out}: {size:.2f} MB, {accuracy}", highlight=False, soft_wrap=True)


def find_split(name: str, lists: Path | None, validation: int) -> SplitRecipe:
    recipe = parse_split(name, lists)
    if validation:
        if not dataclasses.is_dataclass(recipe) or not hasattr(recipe, "validation"):
            raise typer.BadParameter(f"split {name!r} cannot hold images out for validation")
        recipe = dataclasses.replace(recipe, validation=validation)  # pyright: ignore[reportArgumentType]
    return recipe
