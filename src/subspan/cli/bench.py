"""``subspan bench``: every method on feature files under the multi-session protocol."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from subspan.cli.parts.facts import run_facts
from subspan.cli.parts.flags import ImportOption, Values, with_flags
from subspan.engine.contract import Learner
from subspan.experiments.config import Config
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import ProtocolError, missing_for
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.named_features import find_all_embeddings, load_all
from subspan.experiments.report.against import against_table
from subspan.experiments.report.data import to_json, write_predictions
from subspan.experiments.report.render import to_console
from subspan.experiments.report.results_table import results_table
from subspan.experiments.runs import Job, Split, run_jobs
from subspan.features.feature_set import FeatureSet
from subspan.files.atomic import replacing
from subspan.learners.parts.regularizer import Regularizer
from subspan.learners.registry import create_method, list_methods, spec_of, split_spec

ORDER = ("finetune", "subspace", "linear_map", "semantic", "imprint", "prototype", "calibrated")  # of the table


@with_flags(protocol=MultiSession, placement=Placement)
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
    against: Annotated[
        str | None,
        typer.Option(help="A method: print the paired differences of all others to it, with interval, p, effect size."),
    ] = None,
    json_path: Annotated[Path | None, typer.Option("--json", dir_okay=False, help="Write the results as JSON.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write every prediction as CSV (.gz to compress).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(file_okay=False, help="Write an HTML report with figures into this directory.")
    ] = None,
    *,
    protocol: Values,
    placement: Values,
) -> None:
    """Run every method that the files allow, with and without memory, and print one table.

    Examples:

        subspan bench                                    # all methods on the bundled miniImageNet features

        subspan bench --method subspace --method semantic:tau=2 --no-memory --report report

        subspan bench split1.npz split2.npz --embeddings glove300.npz --json results.json
    """
    setup, place = MultiSession(**protocol), Placement(**placement)
    chosen = {"old_penalty": old_penalty, "solver": solver, "new_rows": new_rows}
    of_regularizers = {name: value for name, value in chosen.items() if value is not None}
    create_method("finetune", **of_regularizers)  # refuses a wrong value, also where no chosen method takes it
    if config is not None:
        if method:
            raise ProtocolError("name methods with --method or settings with --config, not both")
        settings = Config.load(config, "multi-session").settings
        method = [spec_of(setting.create()) for setting in settings]
        kinds = {setting.embeddings for setting in settings if setting.embeddings}
        if embeddings is None and len(kinds) > 1:
            raise ProtocolError(
                f"the settings name several embeddings ({', '.join(sorted(kinds))}); choose with --embeddings"
            )
        embeddings = embeddings or next(iter(kinds), None)
    if against is not None and method and against not in method:
        method = [*method, against]
    sets = load_all(files or [])
    needed = embeddings is not None or any("embeddings" in create_method(one).needs for one in method or list_methods())
    vectors = find_all_embeddings(sets, embeddings) if needed else [None] * len(sets)
    splits = list(zip(sets, vectors, strict=True))
    left_out: dict[str, None] = {}  # most are the same with memory and without
    jobs = [
        Job(setup, one, with_memory, tuple(range(len(splits))))
        for with_memory in ([False, True] if memory is None else [memory])
        for one in _methods(method, of_regularizers, splits, with_memory, left_out)
    ]
    for sentence in left_out:
        typer.echo(sentence, err=True)
    rival = None if against is None else _rival(against, [spec_of(job.method) for job in jobs])
    began = time.perf_counter()
    results = run_jobs(splits, jobs, place, bar="sessions", keep_predictions=predictions is not None)
    if predictions is not None:
        write_predictions(predictions, results)
    seconds = time.perf_counter() - began
    for note in dict.fromkeys(note for result in results for note in result.notes):
        Console(stderr=True).print(f"Warning: {note}", style="yellow", soft_wrap=True)
    Console(width=max(120, Console().width)).print(to_console(results_table(results, _title(files, setup, sets))))
    if rival is not None:
        Console(width=max(120, Console().width)).print(to_console(against_table(results, rival), decimals=4))
    if json_path is not None:
        with replacing(json_path) as file:
            file.write_text(json.dumps(to_json(results), indent=1) + "\n", "utf-8")
    if report is not None:
        from subspan.experiments.report.html import write_report  # brings Matplotlib: slow to import, and only for this

        facts = run_facts(setup, place.device, seconds)
        page = write_report(report, results, title="Subspan: multi-session benchmark", facts=facts)
        typer.echo(f"Report: {page}")


def _methods(
    specs: Sequence[str] | None,
    of_regularizers: dict[str, Any],
    splits: Sequence[Split],
    memory: bool,
    left_out: dict[str, None],
) -> list[Learner]:
    """The methods asked for; by default all that the files allow, regularizers first, and why the others are not."""
    methods = []
    known = sorted(list_methods(), key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    for spec in specs or known:
        name, takes = split_spec(spec)[0], isinstance(create_method(spec), Regularizer)
        one = create_method(spec, **{k: v for k, v in of_regularizers.items() if takes and f"{k}=" not in spec})
        problems = (missing_for(features, one, memory, vectors) for features, vectors in splits)
        problem = next(filter(None, problems), None)
        if problem is None:
            methods.append(one)
        elif specs:
            raise ProtocolError(problem)
        else:
            left_out[f"Left out {name}: {problem}."] = None
    if not methods:
        raise ProtocolError("no method can run on these files")
    return methods


def _rival(against: str, methods: Sequence[str]) -> str:
    """The one of the methods that --against means: itself, or with the options that regularizers were given."""
    named = spec_of(create_method(against))
    same = [one for one in methods if split_spec(one)[0] == split_spec(named)[0]]
    if not same or len(set(methods)) < 2:
        raise ProtocolError(f"--against {against} needs a result of this method, and of another; name both by --method")
    return named if named in same else same[0]


def _title(files: Sequence[Path] | None, protocol: MultiSession, sets: Sequence[FeatureSet]) -> str:
    what = ", ".join(path.name for path in files) if files else "bundled miniImageNet features"
    count = max(protocol.draws_of(features) for features in sets)
    draws = f"{count} support draw{'' if count == 1 else 's'}" if protocol.draws else "first images in file order"
    return f"Multi-session, {what}: {protocol.ways} ways, {protocol.shots} shots, {draws}; accuracy in percent"
