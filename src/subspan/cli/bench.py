"""``subspan bench``: every method on feature files under one of the two protocols."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from numpy.typing import NDArray
from rich.console import Console

from subspan import __version__
from subspan.cli.parts.facts import run_record
from subspan.cli.parts.flags import ImportOption, Values, with_flags
from subspan.cli.parts.outputs import Outputs, rival_of
from subspan.experiments.config import PROTOCOLS, Config, Setting
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import ProtocolError, missing_for
from subspan.experiments.kept import kept_or_run, key_of
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.named_features import embeddings_of, load_all
from subspan.experiments.records import Result
from subspan.experiments.results import MethodResult
from subspan.experiments.runs import Cell, run_settings
from subspan.experiments.single_session import SingleSession
from subspan.features.feature_set import FeatureSet, bundle_file
from subspan.files.arrays import arrays_digest
from subspan.files.atomic import replacing
from subspan.learners.parts.regularizer import Regularizer
from subspan.learners.registry import create_method, list_methods, spec_of
from subspan.values import converted

ORDER = ("finetune", "subspace", "linear_map", "semantic", "imprint", "prototype", "calibrated")  # of the table
MULTI, SINGLE = PROTOCOLS
BUNDLE = "bundled miniImageNet features"


@with_flags(sessions=MultiSession, episodes=SingleSession, placement=Placement, outputs=Outputs)
def bench(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Feature files (.npz, .safetensors); several are splits."),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(help="NAME[:option=value,...], repeatable; default all that the files allow (`subspan methods`)."),
    ] = None,
    imports: ImportOption = None,
    config: Annotated[
        str | None,
        typer.Option(help="Run the settings of a config, as `subspan sweep` writes it, instead of --method."),
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="multi-session, or single-session: episodes, of which --count and --*-queries tell.")
    ] = MULTI,
    memory: Annotated[
        bool | None, typer.Option("--memory/--no-memory", help="With or without stored examples; neither: both.")
    ] = None,
    old_penalty: Annotated[str | None, typer.Option(help="R_old: norm or squared; default norm.")] = None,
    solver: Annotated[str | None, typer.Option(help="sgd or optimum; default sgd.")] = None,
    new_rows: Annotated[
        str | None, typer.Option("--new-rows", "--start", help="Start of new rows: uniform or zeros; default uniform.")
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="glove300, glove100, description, a set in the feature file, or a file (npz, GloVe text); "
            "default the feature file's first."
        ),
    ] = None,
    order: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Text file with the novel classes as they come, one a line.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write every prediction as CSV (.gz to compress).")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(file_okay=False, help="Keep finished results here; run again, it goes on from them.")
    ] = None,
    *,
    sessions: Values,
    episodes: Values,
    placement: Values,
    outputs: Values,
) -> None:
    """Run every method that the files allow, with and without memory, and print one table.

    Examples:

        subspan bench                                    # all methods on the bundled miniImageNet features

        subspan bench --method subspace --method semantic:tau=2 --no-memory --report report

        subspan bench split1.npz split2.npz --embeddings glove300.npz --json results.json

        subspan bench --sessions 10,5,5,3 --orders 4 --method prototype --method imprint

        subspan bench --protocol single-session --shots 1 --method prototype --method imprint
    """
    setup = _protocol(protocol, sessions, episodes, order, memory, predictions)
    place, wanted = Placement(**placement), Outputs(**outputs)
    chosen = {"old_penalty": old_penalty, "solver": solver, "new_rows": new_rows}
    of_regularizers = {name: value for name, value in chosen.items() if value is not None}
    create_method("finetune", **of_regularizers)  # refuses a wrong value, also where no chosen method takes it
    if config is not None and method:
        raise ProtocolError("name methods with --method or settings with --config, not both")
    if wanted.against is not None and method and wanted.against not in method:
        method = [*method, wanted.against]
    settings = Config.load(config, protocol) if config else Config(protocol, tuple(map(Setting.of, method or _known())))
    sets = load_all(files or [])
    vectors = embeddings_of(sets, settings.settings, embeddings)
    trials = list(
        _trials(setup, sets, vectors, settings.settings, memory, embeddings, of_regularizers, bool(method or config))
    )
    if wanted.against is not None:
        rival_of(wanted.against, [spec_of(one.method) for one in trials])
    paths = {path.name: path for path in files or ()} or {BUNDLE: bundle_file()}
    record = run_record(title := _title(files, setup, sets), protocol, setup, place, 0.0, paths, embeddings=embeddings)
    hashes = [file["sha256"] for file in record["files"]]
    kinds = [{name: arrays_digest({name: array}) for name, array in of_file.items()} for of_file in vectors]
    keys = [
        key_of(__version__, setup.digest, hashes, kinds, spec_of(one.method), one, bool(predictions)) for one in trials
    ]
    began = time.perf_counter()

    def run(waiting: list[int], on_result: Callable[[int, Result], object]) -> None:
        asked, options = [trials[i] for i in waiting], {"keep_predictions": predictions is not None}
        run_settings(setup, sets, asked, place, embeddings=vectors, on_result=on_result, **options)

    results = kept_or_run(keep, keys, run)
    record["seconds"] = f"{time.perf_counter() - began:.1f}"
    results = [replace(one, run=record, notes=(*one.notes, *_swept(settings, hashes))) for one in results]
    for note in dict.fromkeys(note for result in results for note in result.notes):
        Console(stderr=True).print(f"Warning: {note}", style="yellow", soft_wrap=True)
    if predictions is not None:
        import pandas as pd  # slow to import, and only for this

        with replacing(predictions) as file:  # whose name does not end like the path's
            frame = pd.concat([one.predictions_frame() for one in results if isinstance(one, MethodResult)])
            frame.to_csv(file, index=False, compression="gzip" if predictions.suffix == ".gz" else None)
    wanted.write(results, title)


def _protocol(
    name: str, sessions: Values, episodes: Values, order: Path | None, memory: bool | None, predictions: Path | None
) -> MultiSession | SingleSession:
    """The protocol asked for; an option of the other one is refused."""
    single = converted("--protocol", name, Literal[PROTOCOLS]) == SINGLE
    own, other = (episodes, sessions) if single else (sessions, episodes)
    foreign = [key for key in other if key not in own]
    if single:
        foreign += [key for key, value in (("order", order), ("memory", memory), ("predictions", predictions)) if value]
    if foreign:
        raise ProtocolError(f"the {name} protocol has no --{foreign[0].replace('_', '-')}")
    if single:
        return SingleSession(**own)
    names = () if order is None else tuple(filter(None, map(str.strip, order.read_text("utf-8").splitlines())))
    return MultiSession(**own, order=names)


def _known() -> list[str]:
    """All methods, regularizers first."""
    return sorted(list_methods(), key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))


def _trials(
    protocol: MultiSession | SingleSession,
    sets: Sequence[FeatureSet],
    vectors: Sequence[Mapping[str, NDArray]],
    settings: Sequence[Setting],
    memory: bool | None,
    embeddings: str | None,
    of_regularizers: Mapping[str, Any],
    asked: bool,
) -> Iterator[Cell]:
    """The settings asked for; by default all that the files allow, and a sentence for each that they do not."""
    left_out: dict[str, None] = {}  # most are the same with memory and without
    found = 0
    for kept in [False] if isinstance(protocol, SingleSession) else [False, True] if memory is None else [memory]:
        for one in settings:
            takes = isinstance(one.create(), Regularizer)
            options = {k: v for k, v in of_regularizers.items() if takes and k not in {**one.given, **one.chosen}}
            method, kind = one.create(**options), one.embeddings or embeddings or ""
            problems = (missing_for(f, method, kept, of.get(kind)) for f, of in zip(sets, vectors, strict=True))
            problem = next(filter(None, problems), None)
            if problem and asked:
                raise ProtocolError(problem)
            if problem:
                left_out[f"Left out {one.method}: {problem}."] = None
                continue
            found += 1
            yield Cell(method, one.shots, kind if kind in vectors[0] else None, kept)
    for sentence in left_out:
        typer.echo(sentence, err=True)
    if not found:
        raise ProtocolError("no method can run on these files")


def _swept(settings: Config, hashes: Sequence[str]) -> tuple[str, ...]:
    """What must be said of figures on a file on which their settings were chosen."""
    about = settings.about.get("swept")
    if not isinstance(about, Mapping) or about.get("sha256") not in hashes:
        return ()
    how = "which was swept on: these figures chose them, and are no result"
    if held_out := about.get("held_out_classes"):
        how = f"with the test images of {held_out} of its base classes: base accuracy is not of unseen images"
    return (f"settings were chosen on {about.get('name')}, {how}",)


def _title(files: Sequence[Path] | None, protocol: MultiSession | SingleSession, sets: Sequence[FeatureSet]) -> str:
    what, shots = ", ".join(path.name for path in files) if files else BUNDLE, f"{protocol.shots} shots"
    if isinstance(protocol, SingleSession):
        return f"Single-session, {what}: {protocol.ways} ways, {shots}, {protocol.count} episodes; accuracy in percent"
    count = max(protocol.draws_of(features) for features in sets)
    draws = f"{count} support draw{'' if count == 1 else 's'}" if protocol.draws else "first images in file order"
    ways = f"sessions of {', '.join(map(str, protocol.sessions))}" if protocol.sessions else f"{protocol.ways} ways"
    orders = f", {protocol.orders} orders" if protocol.orders > 1 else ""
    return f"Multi-session, {what}: {ways}, {shots}, {draws}{orders}; accuracy in percent"
