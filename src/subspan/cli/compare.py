"""``subspan compare``: Subspan's default beside what people would write instead, on a person's own classes."""

import json
import time
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from subspan.catalogue.looking import look
from subspan.catalogue.photographs import open_class_photographs
from subspan.cli.parts.facts import run_facts
from subspan.cli.parts.flags import Values, with_flags
from subspan.cli.parts.outputs import print_table
from subspan.experiments.compare import compare as run_comparison
from subspan.experiments.compare.sessions import (
    Drawing,
    Examples,
    Stream,
    all_examples,
    draw_streams,
    read_examples,
    write_examples,
)
from subspan.experiments.compare.ways import kind_named
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.report.comparison import comparison_figure, comparison_table, findings, to_json
from subspan.experiments.report.html import write_page
from subspan.files.arrays import check_suffix, has_suffix
from subspan.files.atomic import replacing
from subspan.pretrained.registry import DEFAULT_BACKBONE, load_backbone
from subspan.progress import shown_stages


@with_flags(drawing=Drawing)
def compare(
    source: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Class folders, a zip of them, or a file of features.")
    ],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder of what it leaves.")] = Path("comparison"),
    method: Annotated[
        list[str] | None, typer.Option(help="A way of the list, or NAME[:option=value,...]; repeatable; default all.")
    ] = None,
    novel_class: Annotated[
        list[str] | None, typer.Option(help="Class that comes later, repeatable, in this order; default drawn.")
    ] = None,
    backbone: Annotated[str, typer.Option(help="Network that sees the photographs.")] = DEFAULT_BACKBONE,
    keep_features: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Keep the features (.npz), for `compare` to read again.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave out what cannot be read, say which.")] = False,
    *,
    drawing: Values,
) -> None:
    """Compare Subspan's default with what people would write instead, on your own photographs.

    The classes of a folder are parted into a base session and later ones with a few photographs each, several times;
    the rest is held out to test with. Every way sees the same features and sessions:

    - `subspan`: IncrementalClassifier() as it comes
    - `logistic`: scikit-learn's LogisticRegression, balanced, C by cross-validation of the base session
    - `lda`, `ridge`, `svm`: LinearDiscriminantAnalysis with shrinkage and equal priors; RidgeClassifierCV, balanced;
      LinearSVC, balanced, features of unit length
    - `centroid`, `knn`: NearestCentroid; KNeighborsClassifier, the nearest one by cosine
    - `ranpac`, `fecam`, `teen`, `slda`: published systems, ours (`subspan methods NAME`)

    scikit-learn's, but for centroids, learn everything again at every session. A file of features holds X and y, or
    sessions: base_X, base_y, s01_X, s01_y ... test_X, test_y, which run as they are unless an option draws others.

    Examples:

        subspan compare photos/

        subspan compare photos.zip --shots 1 --draws 10 --keep-features photos.npz

        subspan compare photos.npz --method subspan --method ridge --novel-class owl --novel-class wren
    """
    for name in method or ():
        kind_named(name)  # refused before anything takes time
    if keep_features is not None and check_suffix(keep_features, "features", ProtocolError).suffix != ".npz":
        raise ProtocolError(f"features are kept as .npz, which holds class names; got '{keep_features}'")
    settings, began = Drawing(**drawing), time.perf_counter()
    with shown_stages() as progress:
        found: Stream | Examples
        if has_suffix(source):
            found = read_examples(source)
        else:
            with open_class_photographs(source) as by_class:
                batch = look(load_backbone(backbone), by_class, skip_bad, progress)
            for reason in batch.skipped:
                warnings.warn(f"left out: {reason}", stacklevel=1)
            found = batch.features, np.array(batch.names)
        if keep_features is not None:
            write_examples(keep_features, *(all_examples(found) if isinstance(found, Stream) else found))
        if isinstance(found, Stream) and not drawing and not novel_class:
            streams, what = [found], "the file's own sessions"
        else:
            X, y = all_examples(found) if isinstance(found, Stream) else found
            streams, what = draw_streams(X, y, settings, novel_class or ()), str(settings)
        results = run_comparison(streams, method, progress)
    base, *later = streams[0].sessions
    title = (
        f"{source.name}: {len(np.unique(base[1]))} base classes, {len(later)} sessions with "
        f"{sum(len(np.unique(y)) for _, y in later)} novel classes, {len(streams[0].test[1])} to test with"
    )
    table, said = comparison_table(results, title), findings(results)
    print_table(table)
    for sentence in said:
        typer.echo(sentence)
    facts = run_facts(what, "cpu", time.perf_counter() - began)
    page = write_page(
        out, title=title, findings=said, tables=[table], figures=[comparison_figure(results)], facts=facts
    )
    with replacing(out / "comparison.json") as file:
        file.write_text(json.dumps(to_json(results, facts), indent=1) + "\n", "utf-8")
    typer.echo(f"Page, tables, figure and JSON: {page}")
