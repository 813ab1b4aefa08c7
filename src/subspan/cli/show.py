"""``subspan show``: the tables of a run, made again from the files that it left."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from subspan.cli.parts.flags import Values, with_flags
from subspan.cli.parts.outputs import Outputs
from subspan.experiments.records import RecordError
from subspan.experiments.results import read_records
from subspan.files.atomic import replacing

FIRST = 20  # confusions that are printed
INDEX = ("method", "memory", "split", "order", "draw", "session")  # columns of a file of predictions that tell of a run


@with_flags(outputs=Outputs)
def show(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="JSON of `bench --json`, or a CSV of `bench --predictions`.")
    ],
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="Of predictions, only these rows; repeatable.")
    ] = None,
    *,
    outputs: Values,
) -> None:
    """Make the tables, figures and frames of a run again from its JSON alone, or count confusions of its predictions.

    Of predictions: how often each class was taken for which, after the last session or the one that --where names;
    --csv writes the whole matrix, a row for each true class.

    Examples:

        subspan show results.json --against prototype --report report

        subspan show predictions.csv.gz --where method=subspace --where split=1 --csv confusion.csv
    """
    wanted = Outputs(**outputs)
    if any(".csv" in path.name for path in files):
        if len(files) > 1:
            raise RecordError("confusions are counted in one file of predictions at a time")
        _confusions(files[0], where or (), wanted.csv)
        return
    results = [result for path in files for result in read_records(path)]
    if len({(one.protocol, str(one.run.get("files"))) for one in results}) != 1:  # or draws would be paired by chance
        raise RecordError("results of one table are of one protocol, with the same settings, on the same files")
    wanted.write(results, str(results[0].run.get("title", ", ".join(path.name for path in files))))


def _confusions(path: Path, where: "list[str] | tuple[str, ...]", out: Path | None) -> None:
    import pandas as pd  # slow to import, and only for this

    frame: Any = pd.read_csv(path, dtype=dict.fromkeys(INDEX, str))
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or name not in frame:
            raise RecordError(f"--where reads COLUMN=VALUE, of {', '.join(frame)}; got '{text}'")
        frame = frame[frame[name].astype(str).str.lower() == value.lower()]
    if not any(text.startswith("session=") for text in where):
        frame = frame[frame["session"].astype(int) == frame["session"].astype(int).max()]
    kinds = frame[["method", "memory"]].drop_duplicates().to_numpy().tolist()
    if len(kinds) != 1:
        told = "; ".join(f"method={method} memory={memory}" for method, memory in kinds)
        raise RecordError(f"confusions are of one method and memory setting; --where leaves {told or 'nothing'}")
    wrong = frame[frame["true_name"] != frame["predicted_name"]]
    pairs = wrong.groupby(["true_name", "predicted_name"]).size().sort_values(ascending=False, kind="stable")
    print_to = Console(highlight=False).print
    print_to(f"{len(frame) - len(wrong)} of {len(frame)} right. Most often, class taken for class:", markup=False)
    for (true, predicted), count in pairs.head(FIRST).items():
        print_to(f"{count:6}  {true} -> {predicted}", markup=False, soft_wrap=True)
    if out is not None:
        with replacing(out) as file:
            pd.crosstab(frame["true_name"], frame["predicted_name"]).to_csv(file)
