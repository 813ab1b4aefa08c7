"""``subspan extract``, ``pack``, ``convert``: from a run to a feature file, and from one form of it to another."""

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from subspan.cli.parts.flags import Values, with_flags
from subspan.cli.parts.runs import (
    DATA,
    ListsOption,
    features_of,
    open_run,
    write_backbone_features,
    write_features,
)
from subspan.cli.parts.tables import show
from subspan.experiments.named_features import find_embeddings, named
from subspan.features.feature_set import FeatureFileError, FeatureSet, Precision
from subspan.files.arrays import check_suffix
from subspan.images.splits.parse import SPLITS
from subspan.train.collect import Contents
from subspan.values import converted

DataOption = Annotated[Path, typer.Option("--data", help=DATA)]
RunOption = Annotated[Path, typer.Option("--run", help="folder of a finished run")]
SizeOption = Annotated[int | None, typer.Option(help="side of the images in pixels; default: the run's")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N")]


@with_flags(contents=Contents)
def extract(
    run: RunOption,
    data: DataOption,
    lists: ListsOption = None,
    image_size: SizeOption = None,
    device: DeviceOption = "auto",
    *,
    contents: Values,
) -> None:
    """Compute the features of a run's split and keep them in the run's folder.

    Example: subspan extract --run runs/random-1 --data mini-imagenet
    """
    wanted = Contents(**contents)
    found = open_run(run, data, lists, image_size)
    features = features_of(found, found.extractor(device, flip_average=wanted.flip_average), wanted)
    classes, (items, copies) = features.novel_support_labels.max() + 1, features.novel_support.shape[:2]
    show(
        f"{found.settings.split}: features of {len(found.split.base_train)} training images, {len(features.base_test)} "
        f"base and {len(features.novel_test)} novel test images and {classes}x{items // classes}x{copies} support "
        f"copies in {run / 'features'}"
    )


@with_flags(contents=Contents)
def pack(
    data: DataOption,
    out: Annotated[Path, typer.Option(help="the feature file to write, .safetensors or, compressed, .npz")],
    run: Annotated[Path | None, typer.Option("--run", help="folder of a finished run")] = None,
    backbone: Annotated[
        str | None, typer.Option("--backbone", help="in place of a run, any network that `subspan backbones` names")
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help=f"with --backbone: {', '.join(SPLITS)}")] = None,
    lists: ListsOption = None,
    image_size: SizeOption = None,
    device: DeviceOption = "auto",
    covariance: Annotated[
        bool | None,
        typer.Option(help="store the covariance of base features; default: of a run's where it takes at most 1 MB"),
    ] = None,
    on_disk: Annotated[str, typer.Option(help="int8, float16 or float32 in the file")] = "int8",
    *,
    contents: Values,
) -> None:
    """Write the feature file of a run, or of any backbone on a split, for `subspan bench` to read.

    Features of a run that are extracted already are used again. With --backbone the rows of the base classes are
    learned by logistic regression.

    Example: subspan pack --run runs/random-1 --data mini-imagenet --out random-1.safetensors

    Example: subspan pack --backbone timm:resnet50@weights.pt --data photos --split folder --out photos.npz
    """
    check_suffix(out, "a feature file", FeatureFileError)
    precision: Precision = converted("on-disk", on_disk, Precision)
    if backbone is None and run is not None and split is None:
        wanted = Contents(**contents, covariance=covariance)
        write_features(open_run(run, data, lists, image_size), device, wanted, out, precision)
    elif backbone is not None and split is not None and run is None:
        if contents.get("flip_average") or device != "auto":
            raise ValueError("--flip-average and --device are of a run; a backbone looks at images in its own way")
        wanted = Contents(**contents, covariance=covariance is not False)
        write_backbone_features(backbone, data, split, lists, image_size, wanted, out, precision)
    else:
        raise ValueError("features are those of --run RUN, which knows its split, or of --backbone NAME and --split")


def convert(
    source: Annotated[Path, typer.Argument(help="Feature file to read (.npz or .safetensors).")],
    target: Annotated[Path, typer.Argument(help="Feature file to write (.npz or .safetensors).")],
    precision: Annotated[str, typer.Option(help="float32, float16 or int8.")] = "float16",
    embeddings: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="Store embeddings of the classes (npz, GloVe text); repeatable."),
    ] = None,
) -> None:
    """Rewrite a feature file in float32, float16 or int8, with class names and embeddings if wanted.

    The name to write ends in .safetensors or, for the compressed form, in .npz.

    Example:

        subspan convert split1.safetensors split1.npz --precision int8 --embeddings glove300=glove300.npz
    """
    kind: Precision = converted("precision", precision, Precision)
    features = named(FeatureSet.load(source))
    vectors = dict(features.embeddings)
    for item in embeddings or []:
        name, equals, file = item.partition("=")
        if not equals:
            raise ValueError(f"--embeddings reads NAME=FILE; got '{item}'")
        found = find_embeddings(features, file)
        if found is not None:
            vectors[name] = found
    dataclasses.replace(features, embeddings=vectors).save(target, kind)
    show(f"{target}: {target.stat().st_size / 1e6:.2f} MB")
