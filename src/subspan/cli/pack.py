"""``subspan extract`` and ``subspan pack``: from a finished run to a feature file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from subspan.cli import TRAINING, app
from subspan.cli.flags import Values, with_flags
from subspan.cli.runs import DATA, ListsOption, open_run, write_features
from subspan.features.feature_set import FeatureFileError
from subspan.files.arrays import check_suffix
from subspan.train.collect import Contents, collect
from subspan.train.extract import Viewing
from subspan.train.pack import Storage

DataOption = Annotated[Path, typer.Option("--data", help=DATA)]
RunOption = Annotated[Path, typer.Option("--run", help="folder of a finished run")]
RunSizeOption = Annotated[
    int | None,
    typer.Option("--image-size", help="side of the images in pixels; default: the run's", show_default=False),
]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:N")]


@app.command(rich_help_panel=TRAINING)
@with_flags(contents=Contents, viewing=Viewing)
def extract(
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
    found = open_run(run, data, lists, image_size)
    collected = collect(found.extractor(device, Viewing(**viewing)), found.images, found.split, wanted)
    support = "x".join(map(str, collected.novel_support.shape[:3]))
    Console().print(
        f"{found.settings.split}: features of {collected.base_count.sum()} training images, "
        f"{sum(map(len, collected.base_test))} base and {sum(map(len, collected.novel_test))} novel test images and "
        f"{support} support copies in {run / 'features'}",
        highlight=False,
        soft_wrap=True,
    )


@app.command(rich_help_panel=TRAINING)
@with_flags(contents=Contents, viewing=Viewing, storage=Storage)
def pack(
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
    found = open_run(run, data, lists, image_size)
    write_features(found, device, Viewing(**viewing), wanted, out, Storage(**storage))
