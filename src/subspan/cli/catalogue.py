"""The commands for photographs: init, add, predict, evaluate, classes, sessions, undo, rename, remove and others."""

import contextlib
import csv
import dataclasses
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError, DoubtError
from subspan.catalogue.options import DESCRIPTION, CatalogueOptions
from subspan.catalogue.records import AddReport, Evaluation
from subspan.catalogue.versions import go_back
from subspan.cli.parts import inputs, tables
from subspan.cli.parts.flags import Values, with_flags
from subspan.files.atomic import replacing
from subspan.images.imageset import DataError
from subspan.pretrained.backbone import Image
from subspan.pretrained.registry import list_sources
from subspan.progress import shown_stages

CHECKED = 64  # photographs at most that an export is checked with
CataloguePath = Annotated[Path, typer.Argument(metavar="CATALOGUE", help="Catalogue, a folder NAME.subspan.")]
FOLDER = "Folder of class folders, or a zip of them."
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Descriptions = Annotated[Path | None, typer.Option(help="JSON file, class name to description, for language methods.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave images out that cannot be read, and say which.")]
Network = Annotated[
    str | None,
    typer.Option("--backbone", help="Where the catalogue's network is now, if it moved; its weights must be the same."),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Load what it names outside its folder, as its network: trust whoever made it.")
]


@with_flags(options=CatalogueOptions)
def init(
    catalogue: CataloguePath,
    photographs: Annotated[Path | None, typer.Argument(metavar="[FOLDER]", help=FOLDER)] = None,
    weights: Annotated[Path | None, typer.Option(help="Head: safetensors or npz; weight, perhaps bias, means.")] = None,
    names: Annotated[Path | None, typer.Option(help="Class names of the head, one a line.")] = None,
    check: Annotated[Path | None, typer.Option(help="Class folders that the head was not trained on.")] = None,
    descriptions: Descriptions = None,
    skip_bad: SkipBad = False,
    ray: Annotated[bool, typer.Option("--ray", help="Look at them on a Ray cluster (RAY_ADDRESS, else here).")] = False,
    as_json: Json = False,
    *,
    options: Values,
) -> None:
    """Make a catalogue from class folders of photographs, or around a classifier that exists.

    Examples:

        subspan init birds.subspan photos/

        subspan init birds.subspan --weights head.safetensors --names names.txt --backbone timm:resnet50
    """
    settings = CatalogueOptions(**options)
    if settings.embeddings and Path(settings.embeddings).exists() and settings.embeddings != DESCRIPTION:
        settings = dataclasses.replace(settings, embeddings=str(Path(settings.embeddings).resolve()))
    if (photographs is None) == (weights is None):
        raise CatalogueError("init takes either a FOLDER of photographs or --weights with --names")
    if weights is None and (names is not None or check is not None):
        raise CatalogueError("--names and --check belong to --weights; a FOLDER names its own classes")
    if weights is not None and names is None:
        raise CatalogueError("--weights needs --names, a file with one class name a line")
    said = inputs.read_descriptions(descriptions)
    with shown_stages() as progress, inputs.photographs_by_class(photographs or check) as by_class:
        shared: dict[str, Any] = dict(descriptions=said, skip_bad=skip_bad, progress=progress)
        if weights is not None and names is not None:
            head, class_names = inputs.read_head(weights), inputs.read_names(names)
            shared |= dict(bias=head.get("bias"), means=head.get("means"), check=by_class)
            _, report = Catalogue.create_from_weights(catalogue, head["weight"], class_names, settings, **shared)
        else:
            _, report = Catalogue.create(catalogue, by_class, settings, ray=ray, **shared)
    _show(report, as_json, tables.init_text(catalogue, report))


def add(
    catalogue: CataloguePath,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Class folders; with --class images.")],
    name: Annotated[str | None, typer.Option("--class", help="The class that all these images show.")] = None,
    describe: Annotated[str | None, typer.Option(help="With --class: a sentence about the class.")] = None,
    descriptions: Descriptions = None,
    warn_drop: Annotated[float | None, typer.Option(help="Points old classes may lose without a warning.")] = None,
    skip_bad: SkipBad = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Do not look for mislabelled photographs.")] = False,
    careful: Annotated[bool, typer.Option("--careful", help="Learn nothing where some look mislabelled.")] = False,
    backbone: Network = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Add new classes from a few photographs, or more photographs of classes that are known.

    Photographs that look like another class than the one they are said to show are named before anything is learned; on
    a terminal it then asks whether to go on.

    Old classes are judged before and after on their kept examples; what the new ones take is named.

    Examples:

        subspan add birds.subspan new/

        subspan add birds.subspan --class "white wolf" a.jpg b.jpg --describe "a large pale wolf"
    """
    if describe is not None and name is None:
        raise CatalogueError("--describe belongs to --class; use --descriptions FILE for several classes")
    said = inputs.read_descriptions(descriptions)
    opened = Catalogue.open(catalogue, backbone, trust=trust)
    by_class: dict[str, list[Image]] = {}
    place_of: dict[str, Path] = {}
    with contextlib.ExitStack() as stack:
        if name is not None:
            by_class[name] = list(inputs.image_files(images))
            said |= {} if describe is None else {name: describe}
        for folder in images if name is None else ():
            for one, files in stack.enter_context(inputs.photographs_by_class(folder)).items():
                place = (folder / files[0].file).parent
                if place_of.setdefault(one, place) != place:
                    raise DataError(
                        f"the folders {place_of[one]} and {place} would be one class '{one}': add one after the other "
                        "if they are"
                    )
                by_class[one] = list(files)

        def learn(careful: bool) -> list[AddReport]:
            with shown_stages() as progress:
                return opened.add_all(
                    by_class, said, warn_drop=warn_drop, skip_bad=skip_bad, careful=careful, progress=progress
                )

        try:
            reports = learn(careful=not anyway)
        except DoubtError as error:
            if careful:
                raise
            typer.echo(f"Warning: {error.named}", err=True)
            if sys.stdin.isatty() and not typer.confirm("Learn them anyway?", err=True):
                raise CatalogueError("nothing was learned") from error
            reports = learn(careful=False)
    _show(reports, as_json, tables.add_text(reports))


def predict(
    catalogue: CataloguePath,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Images, or folders of them.")],
    top: Annotated[int, typer.Option(help="Classes to name for each image.")] = 5,
    reject: Annotated[bool, typer.Option("--reject", help='Allow the answer "none of these".')] = False,
    reject_share: Annotated[float, typer.Option(help="Share of known images that --reject may turn away.")] = 0.05,
    backbone: Network = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Say what photographs show, with probabilities.

    Those that cannot be read are named at the end, and the exit status is 2.

    Examples:

        subspan predict birds.subspan photo.jpg

        subspan predict birds.subspan inbox/ --reject --json
    """
    opened = Catalogue.open(catalogue, backbone, trust=trust)
    files, bad = inputs.image_files(images), dict[int, DataError]()
    with shown_stages() as progress:
        answers = opened.predict(files, top, reject_share if reject else False, bad=bad.__setitem__, progress=progress)
    read = [file for place, file in enumerate(files) if place not in bad]
    named = [
        {"image": str(file), "name": answer.name, **dataclasses.asdict(answer)}
        for file, answer in zip(read, answers, strict=True)
    ]
    _show(named, as_json, *([tables.predictions_table(read, answers)] if answers else []))
    for error in bad.values():
        typer.echo(f"Error: {error}", err=True)
    if bad:
        raise typer.Exit(2)


def evaluate(
    catalogue: CataloguePath,
    photographs: Annotated[Path, typer.Argument(metavar="FOLDER", help=FOLDER)],
    confusion: Annotated[Path | None, typer.Option(help="Write who is taken for whom as CSV.")] = None,
    skip_bad: SkipBad = False,
    backbone: Network = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Measure a catalogue on photographs whose classes are known.

    Class folders that the catalogue does not know count as unknown: the trade-off table says how many of them rejection
    notices, and what it costs.

    Example:

        subspan evaluate birds.subspan test-photos/ --confusion confusion.csv
    """
    opened = Catalogue.open(catalogue, backbone, trust=trust)
    with replacing(confusion) if confusion is not None else contextlib.nullcontext() as file:
        with shown_stages() as progress, inputs.photographs_by_class(photographs) as by_class:
            result = opened.evaluate(by_class, skip_bad=skip_bad, progress=progress)
        if file is not None:
            _write_confusion(result, file)
    _show(result, as_json, *tables.evaluation_tables(result))


def classes(catalogue: CataloguePath, as_json: Json = False) -> None:
    """List the classes of a catalogue.

    Example: subspan classes birds.subspan
    """
    entries = Catalogue.open(catalogue).classes()
    _show(entries, as_json, tables.classes_table(entries))


def sessions(catalogue: CataloguePath, as_json: Json = False) -> None:
    """List the sessions: when, which classes, how many examples, old classes before and after.

    `subspan log` is the same command.

    Example: subspan sessions birds.subspan
    """
    entries = Catalogue.open(catalogue).sessions()
    _show(entries, as_json, tables.sessions_table(entries))


def undo(catalogue: CataloguePath, as_json: Json = False) -> None:
    """Take the last session back; works also where its version is damaged.

    Example: subspan undo birds.subspan
    """
    entry = go_back(catalogue)[1]
    _show(entry, as_json, f"Undone: session {entry.session}, {tables.what(entry)}.")


def rename(
    catalogue: CataloguePath,
    old: Annotated[str, typer.Argument(help="Class as it is called now.")],
    new: Annotated[str, typer.Argument(help="Its new name.")],
    as_json: Json = False,
) -> None:
    """Give a class another name.

    Example: subspan rename birds.subspan "grey tit" "great tit"
    """
    entry = Catalogue.open(catalogue).rename(old, new)
    _show(entry, as_json, f"Session {entry.session}: {tables.what(entry)}.")


def remove(
    catalogue: CataloguePath, name: Annotated[str, typer.Argument(help="Class to forget.")], as_json: Json = False
) -> None:
    """Forget a class; `undo` brings it back until `prune`.

    Example: subspan remove birds.subspan "grey tit"
    """
    entry = Catalogue.open(catalogue).remove(name)
    _show(entry, as_json, f"Session {entry.session}: {tables.what(entry)}.")


def rebase(
    catalogue: CataloguePath,
    photographs: Annotated[Path, typer.Argument(metavar="FOLDER", help=FOLDER)],
    backbone: Annotated[str, typer.Option(help="Network that sees the photographs from now on (`subspan backbones`).")],
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Make a catalogue again with another network: the same sessions, from photographs of all its classes.

    Example: subspan rebase birds.subspan photos/ --backbone best
    """
    from subspan.catalogue.rebase import rebase as made_again  # here: few need it

    with shown_stages() as progress, inputs.photographs_by_class(photographs) as by_class:
        _, report = made_again(catalogue, by_class, backbone, skip_bad=skip_bad, progress=progress)
    _show(report, as_json, tables.init_text(catalogue, report))


def prune(
    catalogue: CataloguePath,
    keep: Annotated[int | None, typer.Option(help="Keep so many of the last; default all not undone.")] = None,
    as_json: Json = False,
) -> None:
    """Remove versions of undone sessions from the disk, and with --keep old ones too.

    Example: subspan prune birds.subspan --keep 10
    """
    removed = Catalogue.open(catalogue).prune(keep)
    _show(removed, as_json, f"Removed {tables.count(len(removed), 'version')}.")


def export(
    catalogue: CataloguePath,
    onnx: Annotated[Path, typer.Option(help="File to write.")],
    images: Annotated[list[Path] | None, typer.Option("--check", help="Images, folders to check it with.")] = None,
    backbone: Network = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Write network and head as one ONNX file, checked with onnxruntime against the catalogue.

    Input `pixels` (n, size, size, 3) uint8, scaled and cropped as the file's metadata says; outputs `probabilities` and
    `familiarity`.

    Example: subspan export birds.subspan --onnx birds.onnx --check photos/
    """
    opened = Catalogue.open(catalogue, backbone, trust=trust)
    report = opened.export(onnx, inputs.image_files(images)[:CHECKED] if images else inputs.sample_photographs())
    _show(report, as_json, tables.export_text(report))


def backbones() -> None:
    """List the forms that names of backbones take, as in `subspan init --backbone timm:resnet50.a1_in1k`.

    Example: subspan backbones
    """
    tables.show("\n".join(list_sources()))


def _write_confusion(result: Evaluation, path: Path) -> None:
    """Photographs by true class (rows) and answer (columns) as CSV."""
    counts = {one.name: {one.name: one.correct, **dict(one.taken_for)} for one in result.per_class}
    answers = sorted(set().union(*counts.values()))
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["class", *answers])
        table.writerows([name, *(row.get(answer, 0) for answer in answers)] for name, row in counts.items())


def _show(result: Any, as_json: bool, *text: Any) -> None:
    """Print a result, or a list of them, as JSON or as its text."""
    if as_json:
        typer.echo(json.dumps(result, default=dataclasses.asdict, indent=1, ensure_ascii=False))
    else:
        tables.show(*text)
