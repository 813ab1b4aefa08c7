"""The commands for photographs: init, add, predict, evaluate, review, export; `correct` has those that put right."""

import contextlib
import csv
import dataclasses
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError, CloseNameError, DoubtError
from subspan.catalogue.names import check_not_close, clean_name
from subspan.catalogue.options import DESCRIPTION, CatalogueOptions
from subspan.catalogue.records import Evaluation, Finding, Review, WrongAnswer
from subspan.cli import visible
from subspan.cli.parts import inputs, tables
from subspan.cli.parts.answers import Lines, Summary, check_output, printing
from subspan.cli.parts.catalogues import (
    FOLDER,
    CataloguePath,
    Descriptions,
    Json,
    Names,
    Network,
    SkipBad,
    Trust,
    author,
    show,
)
from subspan.cli.parts.flags import Values, with_flags
from subspan.files.atomic import replacing
from subspan.images.imageset import DataError
from subspan.pretrained.backbone import Image
from subspan.pretrained.registry import list_sources, load_backbone
from subspan.progress import shown_stages

FINDINGS = 50  # of a review that are printed
CHECKED = 64  # photographs at most that an export is checked with


@with_flags(options=CatalogueOptions)
def init(
    catalogue: CataloguePath,
    photographs: Annotated[Path | None, typer.Argument(metavar="[FOLDER]", help=FOLDER)] = None,
    weights: Annotated[Path | None, typer.Option(help="Head: safetensors or npz; weight, perhaps bias, means.")] = None,
    names: Annotated[
        str, typer.Option(help="With --weights: file with class names, one a line. Else as in `add`: folder or path.")
    ] = "folder",
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
    if weights is None and (names not in ("folder", "path") or check is not None):
        raise CatalogueError("--names FILE and --check belong to --weights; a FOLDER names its own classes")
    if weights is not None and names == "folder":
        raise CatalogueError("--weights needs --names, a file with one class name a line")
    said = inputs.read_descriptions(descriptions)
    with shown_stages() as progress, inputs.photographs_by_class(photographs or check, names == "path") as by_class:
        shared: dict[str, Any] = dict(descriptions=said, skip_bad=skip_bad, progress=progress, author=author())
        if weights is not None:
            head, class_names = inputs.read_head(weights), inputs.read_names(Path(names))
            shared |= dict(bias=head.get("bias"), means=head.get("means"), check=by_class)
            _, report = Catalogue.create_from_weights(catalogue, head["weight"], class_names, settings, **shared)
        else:
            _, report = Catalogue.create(catalogue, by_class, settings, ray=ray, **shared)
    show(report, as_json, tables.init_text(catalogue, report))


def add(
    catalogue: CataloguePath,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Class folders; with --class images.")],
    name: Annotated[str | None, typer.Option("--class", help="The class that all these images show.")] = None,
    describe: Annotated[str | None, typer.Option(help="With --class: a sentence about the class.")] = None,
    descriptions: Descriptions = None,
    warn_drop: Annotated[float | None, typer.Option(help="Points old classes may lose without a warning.")] = None,
    names: Names = "folder",
    new: Annotated[bool, typer.Option("--new", help="The name is meant, though nearly that of a known class.")] = False,
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
            for one, files in stack.enter_context(inputs.photographs_by_class(folder, names == "path")).items():
                place = (folder / files[0].file).parent
                if place_of.setdefault(one, place) != place:
                    raise DataError(
                        f"the folders {place_of[one]} and {place} would be one class '{one}': add one after the other "
                        "if they are"
                    )
                by_class[one] = list(files)

        if name is None and not new:  # nobody types the names of folders: `house` beside `mouse` is no slip there
            new, known = True, [entry.name for entry in opened.classes()]
            for one in set(map(clean_name, by_class)).difference(known):
                try:
                    check_not_close(one, known)
                except CloseNameError as error:
                    typer.echo(visible(f"Warning: class '{one}' is new, beside '{error.known}'"), err=True)
        how: dict[str, Any] = {"warn_drop": warn_drop, "skip_bad": skip_bad, "new": new, "author": author()}
        with shown_stages() as progress:

            def go_on(error: DoubtError) -> bool:
                if careful:
                    return False
                progress.hide()
                typer.echo(visible(f"Warning: {error.named}"), err=True)
                return not sys.stdin.isatty() or typer.confirm("Learn them anyway?", err=True)

            try:
                reports = opened.add_all(by_class, said, careful=not anyway and go_on, progress=progress, **how)
            except CloseNameError as error:
                raise CatalogueError(f"{error}; where it is another class, say --new") from error
    show(reports, as_json, tables.add_text(reports))


def predict(
    catalogue: CataloguePath,
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Images, or folders of them.")],
    top: Annotated[int, typer.Option(help="Classes to name for each image.")] = 5,
    reject: Annotated[bool, typer.Option("--reject", help='Allow the answer "none of these".')] = False,
    reject_share: Annotated[float, typer.Option(help="Share of known images that --reject may turn away.")] = 0.05,
    to_csv: Annotated[Path | None, typer.Option("--csv", help="Write every answer here when it is known.")] = None,
    to_jsonl: Annotated[Path | None, typer.Option("--jsonl", help="The same as JSON, one answer a line.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with that file where it ends.")] = False,
    ray: Annotated[bool, typer.Option("--ray", help="Look at them on a Ray cluster (RAY_ADDRESS, else here).")] = False,
    backbone: Network = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Say what photographs show, with probabilities.

    Those that cannot be read are named at the end, and the exit status is 2. What was answered before Ctrl-C is kept.

    Examples:

        subspan predict birds.subspan photo.jpg

        subspan predict birds.subspan inbox/ --reject --csv answers.csv --resume
    """
    file = check_output(to_csv, to_jsonl, resume, as_json)
    opened, summary = Catalogue.open(catalogue, backbone, trust=trust), Summary()
    files = inputs.image_files(images)
    lines = None if file is None else Lines(file, top, resume)
    done = 0 if lines is None else len(lines.done)
    files = files if lines is None else lines.to_do(files)
    total = None if file or any(map(Path.is_dir, images)) else len(images)
    with shown_stages() as progress, printing(as_json) if lines is None else lines.writing() as write:
        try:
            for image, answer in opened.stream(files, top, reject_share if reject else False, ray=ray):
                write(image, answer)
                summary.add(answer)
                progress("looking at photographs", summary.total, total)
        except KeyboardInterrupt:
            summary.tell(done)
            raise
    summary.tell(done)
    if summary.bad:
        raise typer.Exit(2)


def evaluate(
    catalogue: CataloguePath,
    photographs: Annotated[Path, typer.Argument(metavar="FOLDER", help=FOLDER)],
    confusion: Annotated[Path | None, typer.Option(help="Write who is taken for whom as CSV.")] = None,
    wrong: Annotated[Path | None, typer.Option(help="Write the photographs that failed as CSV.")] = None,
    names: Names = "folder",
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
    with contextlib.ExitStack() as stack:
        confusions, failed = (None if to is None else stack.enter_context(replacing(to)) for to in (confusion, wrong))
        with shown_stages() as progress, inputs.photographs_by_class(photographs, names == "path") as by_class:
            result = opened.evaluate(by_class, skip_bad=skip_bad, progress=progress)
        if confusions is not None:
            _write_confusion(result, confusions)
        if failed is not None:
            _write_records(failed, result.wrong, WrongAnswer)
    show(result, as_json, *tables.evaluation_tables(result))


def review(
    photographs: Annotated[Path, typer.Argument(metavar="FOLDER", help=FOLDER)],
    catalogue: Annotated[Path | None, typer.Option(help="Compare with what this catalogue was taught.")] = None,
    to_csv: Annotated[Path | None, typer.Option("--csv", help="Write all findings here.")] = None,
    page: Annotated[Path | None, typer.Option(help="Write a page with thumbnails of the worst here.")] = None,
    names: Names = "folder",
    skip_bad: SkipBad = False,
    backbone: Network = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Rank photographs that look mislabelled, doubtful, unlike everything, or are there twice, the worst first.

    Each is judged by models that were not taught it.

    Example: subspan review photos/ --page review.html
    """
    from subspan.catalogue.looking import look  # here: one photograph's answer needs none of it
    from subspan.catalogue.review import review, write_page

    opened = None if catalogue is None else Catalogue.open(catalogue, backbone, trust=trust)
    with shown_stages() as progress, inputs.photographs_by_class(photographs, names == "path") as by_class:
        if opened is None:
            batch = look(load_backbone(backbone or CatalogueOptions.backbone), by_class, skip_bad, progress)
            found = Review(tuple(review(batch)), batch.skipped)
        else:
            found = opened.review(by_class, skip_bad=skip_bad, progress=progress)
        if page is not None:
            write_page(page, found.findings, by_class)
    if to_csv is not None:
        with replacing(to_csv) as file:
            _write_records(file, found.findings, Finding)
    shown = found.findings[:FINDINGS]
    said = f"{tables.count(len(found.findings), 'photograph')} to look at" + (", the worst first:" if shown else ".")
    show(found, as_json, said, *([tables.review_table(shown)] if shown else []), *tables.left_out(found.skipped))


def rebase(
    catalogue: CataloguePath,
    photographs: Annotated[Path, typer.Argument(metavar="FOLDER", help=FOLDER)],
    backbone: Annotated[str, typer.Option(help="Network that sees the photographs from now on (`subspan backbones`).")],
    names: Names = "folder",
    skip_bad: SkipBad = False,
    as_json: Json = False,
) -> None:
    """Make a catalogue again with another network: the same sessions, from photographs of all its classes.

    Example: subspan rebase birds.subspan photos/ --backbone best
    """
    from subspan.catalogue.rebase import rebase as made_again  # here: few need it

    with shown_stages() as progress, inputs.photographs_by_class(photographs, names == "path") as by_class:
        _, report = made_again(catalogue, by_class, backbone, skip_bad=skip_bad, progress=progress)
    show(report, as_json, tables.init_text(catalogue, report))


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
    report = opened.export(
        onnx, list(islice(inputs.image_files(images), CHECKED)) if images else inputs.sample_photographs()
    )
    show(report, as_json, tables.export_text(report))


def backbones() -> None:
    """List the forms that names of backbones take, as in `subspan init --backbone timm:resnet50.a1_in1k`.

    Example: subspan backbones
    """
    tables.show("\n".join(list_sources()))


def _write_confusion(result: Evaluation, path: Path) -> None:
    """Photographs by true class (rows) and answer (columns)."""
    counts = {one.name: {one.name: one.correct, **dict(one.taken_for)} for one in result.per_class}
    answers = sorted(set().union(*counts.values()))
    _write_csv(
        path, ["class", *answers], ([name, *(row.get(one, 0) for one in answers)] for name, row in counts.items())
    )


def _write_records(path: Path, records: Sequence[Any], kind: type) -> None:
    columns = [field.name for field in dataclasses.fields(kind) if field.name != "place"]
    _write_csv(path, columns, ([getattr(one, column) for column in columns] for one in records))


def _write_csv(path: Path, columns: list[str], rows: Iterable[list[Any]]) -> None:
    with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
