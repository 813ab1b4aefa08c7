"""``subspan sweep``: the best options of methods on development data, as a config."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import typer

from subspan.cli.parts.facts import command_line, sha256_of, version
from subspan.cli.parts.flags import ImportOption, Values, with_flags
from subspan.cli.parts.outputs import print_table
from subspan.experiments.config import PROTOCOLS, Config, Setting
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import ProtocolError
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.named_features import embeddings_of, named, usual_embeddings
from subspan.experiments.orders import with_held_out_classes
from subspan.experiments.report.results_table import MEASURES, OF_EPISODES
from subspan.experiments.report.tables import Cell, Column, Row, Table
from subspan.experiments.single_session import SingleSession
from subspan.experiments.sweep import (
    Protocol,
    check_development,
    check_names,
    edges_of,
    parse_values,
    run_sweep,
    trials_of,
)
from subspan.features.feature_set import FeatureSet
from subspan.values import converted


@with_flags(placement=Placement)
def sweep(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Feature file of development data.")],
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder of the trials and of config.json; an earlier sweep goes on.")
    ],
    tried: Annotated[
        list[str], typer.Option("--try", help="option=value,value,... or, with --random, option=low..high; repeatable.")
    ],
    method: Annotated[
        list[str] | None, typer.Option(help="NAME[:option=value,...], repeatable; what is given here is not tried.")
    ] = None,
    imports: ImportOption = None,
    config: Annotated[
        str | None, typer.Option(help="Start from the settings of a config; what it has as given is not tried.")
    ] = None,
    protocol: Annotated[str, typer.Option(help="single-session or multi-session.")] = "single-session",
    random: Annotated[
        int | None, typer.Option(help="So many random trials for each method instead of the grid.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random trials, the episodes and the draws.")] = 0,
    shots: Annotated[list[int] | None, typer.Option(help="Support images a class, repeatable; default 5.")] = None,
    count: Annotated[int, typer.Option(help="Episodes of a trial (single-session).")] = 500,
    draws: Annotated[int, typer.Option(help="Support draws of a trial (multi-session).")] = 5,
    memory: Annotated[bool, typer.Option("--memory/--no-memory", help="With stored examples (multi-session).")] = False,
    embeddings: Annotated[
        str | None, typer.Option(help="As in bench; default the settings', else the file's first.")
    ] = None,
    hold_out_classes: Annotated[
        int | None, typer.Option(help="So many base classes, drawn by the seed, play the novel ones: for any file.")
    ] = None,
    *,
    placement: Values,
) -> None:
    """Try option values of methods on development data and write the best as a config.

    Data must be such that no table reports it: of any file --hold-out-classes N, which leaves its novel classes alone;
    or for episodes a file of development classes (`subspan pack --novel development`), for sessions the random split 0.
    Every finished trial is written down at once; the same command goes on where a kill ended it. `bench` warns of a
    file that its settings were chosen on.

    Examples:

        subspan sweep dev.safetensors --method subspace --try gamma=0.01,0.1,1 --try beta_base=0.03,0.2 --out sweep

        subspan sweep dev.safetensors --method semantic --random 30 --try gamma=0.001..1 --try tau=0.5..5 --out sweep

        subspan sweep dev.safetensors --config single-session-mini --try learning_rate=0.001,0.002,0.005 --out sweep

        subspan sweep mine.npz --hold-out-classes 10 --method subspace --try gamma=0.1,1,10 --out sweep

        subspan bench mine.npz --protocol single-session --config sweep/config.json
    """
    converted("protocol", protocol, Literal[PROTOCOLS])
    if (method is None) == (config is None):
        raise ProtocolError("name the methods to search with --method, or settings to start from with --config")
    place = Placement(**placement)
    single = protocol == "single-session"
    numbers = shots or [5]
    sessions = MultiSession(draws=draws, seed=seed, shots=numbers[0])
    setup: Protocol = SingleSession(count=count, seed=seed) if single else sessions
    features = named(FeatureSet.load(file))
    if hold_out_classes is None:
        check_development(features, setup)
    else:
        features = with_held_out_classes(features, hold_out_classes, seed)
    if config is not None:
        settings = Config.load(config, protocol).settings
    else:
        settings = [Setting.of(spec, shots=n) for spec in method or [] for n in (numbers if single else [None])]
    values = dict(parse_values(text) for text in tried)
    check_names(settings, values)
    if random is not None and random < 1:
        raise ProtocolError(f"--random must be at least 1; got {random}")
    usual = embeddings or usual_embeddings(features)
    settings = [
        dataclasses.replace(one, embeddings=one.embeddings or usual) if "embeddings" in one.create().needs else one
        for one in settings
    ]
    groups = [trials_of(setting, values, random, seed) for setting in settings]
    trials = [trial for group in groups for trial in group]
    results = run_sweep(
        out, setup, features, trials, place, embeddings=embeddings_of([features], settings)[0], memory=memory
    )
    measure = OF_EPISODES["accuracy"] if single else MEASURES["weighted"]
    left = map(measure.cell_of, results)  # of equals the first is the best
    best = [max(zip(group, left, strict=False), key=lambda pair: pair[1].value) for group in groups]
    where = "the development split"
    if single or hold_out_classes:
        where = f"the {features.novel_count} {'held-out base' if hold_out_classes else 'development'} classes"
    edges = [said for (setting, _), group in zip(best, groups, strict=True) for said in edges_of(group, setting)]
    score = "joint accuracy" if single else "weighted accuracy after the last session"
    about = {
        "chosen": f"chosen on {where} of split '{features.meta.get('split')}' by `subspan sweep`: best {score}",
        "command": command_line(),
        "version": version(),
        "protocol": f"{setup}" + (", with memory" if memory else ""),
        "trials": len(trials),
        "edges": edges,
        "swept": {"name": file.name, "sha256": sha256_of(file), "held_out_classes": hold_out_classes},
    }
    path = Config(protocol, tuple(setting for setting, _ in best), about).save(out / "config.json")
    rows = []
    for (setting, reached), group in zip(best, groups, strict=True):
        chosen = ", ".join(f"{name}={value}" for name, value in setting.chosen.items()) or "nothing to choose"
        cells = {"score": reached, "trials": Cell(len(group))}
        rows.append(Row((setting.name, str(setting.shots or ""), chosen), cells))
    columns = (Column("score", "score", score), Column("trials", "trials", "combinations tried", decimals=0))
    notes = (f"Score: {score} in percent on {where}, with its 95 % interval; the best trial of each line.", *edges)
    table = Table(("method", "shots", "chosen"), columns, tuple(rows), "Best settings", notes)
    print_table(table, decimals=2)
    typer.echo(f"Config: {path}")
