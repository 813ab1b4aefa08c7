"""Published systems beside the methods: which are asked for, what each lacks, their runs and their stored results."""

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from subspan.engine.contract import Base, Learner
from subspan.experiments.config import Setting
from subspan.experiments.episodes import Episodes
from subspan.experiments.fan_out import Placement
from subspan.experiments.inputs import missing_for
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.named_features import find_embeddings, usual_embeddings
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.experiments.runs import Job, Split, run_jobs
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import create_method, list_network_systems, list_systems, method_class, split_spec
from subspan.learners.training.network_system import NetworkSystem
from subspan.learners.training.trained_part import TrainedPart, TrainedPartError
from subspan.learners.training.trained_system import DrawnFeaturesWarning, TrainedSystem
from subspan.paper.published import OURS, RELEASED, STORED, published
from subspan.paper.sources import EVERY
from subspan.paper.stored_results import stored_results
from subspan.paper.tables.runs import Run, cost_of
from subspan.values import tensor_of

FORMS: Mapping[str, tuple[str, ...]] = {  # as released, where ours is another: further rows in the tables of all
    "calibrated-fecam": ("form=released",),
    "fecam": ("form=released",),
    "ranpac": ("form=released", "form=calibrated,alpha=0.25"),  # alpha: its script's on CIFAR
    "teen": ("alpha=0.1",),  # of its CIFAR script
}


def chosen_systems(text: str | None, protocol: str) -> list[str]:
    """The systems that run under a protocol of ``all`` or ``name,name:option=value``; none where nothing is said.

    A method of one's own may stand among them, as everywhere: ``package.module:Class``.
    """
    networks = {name: method_class(name) for name in list_network_systems()}
    others = {n: c.protocol for n, c in networks.items() if issubclass(c, NetworkSystem) and c.protocol != protocol}
    if text == EVERY:
        known = [name for name in (*list_systems(), *networks) if name not in others]
        return [spec for name in known for spec in (name, *(f"{name}:{form}" for form in FORMS.get(name, ())))]
    # Options have commas between them, too: what follows such a comma reads option=value.
    specs = [spec.strip() for spec in re.split(r",(?![^:,]*=)", text or "") if spec.strip()]
    for name in (split_spec(spec)[0] for spec in specs):
        if other := others.get(name):
            raise ValueError(f"system '{name}' has results under {other} only: `subspan reproduce {other}`")
        method_class(name)  # an unknown one is said before the work
    return specs


def run_systems(
    specs: Sequence[str], protocol: MultiSession, splits: Mapping[str, Split], parts: Path, place: Placement
) -> tuple[list[Run[MethodResult]], list[str]]:
    """Every system on the splits (by name) that have what it needs, and a sentence for each left out."""
    pairs, named, left_out = list(splits.values()), list[tuple[str, Job]](), []
    for spec in (spec for spec in specs if not moves_the_network(spec)):
        system = create_system(spec, parts)
        reasons = {title: lacking(system, split) for title, split in splits.items()}
        usable = tuple(number for number, reason in enumerate(reasons.values()) if not reason)
        for reason in dict.fromkeys(filter(None, reasons.values())):
            where = ", ".join(title for title, said in reasons.items() if said == reason)
            left_out.append(f"System {spec} on {where}: {reason}.")
        if usable:
            named += [(spec, Job(protocol, system, memory, usable)) for memory in sorted({False, system.uses_memory})]
    results = run_jobs(pairs, [job for _, job in named], place, bar="sessions of systems")
    runs = []
    for (spec, job), result in zip(named, results, strict=True):
        trained = [part for n in job.splits if (part := part_of(job.method, pairs[n][0]))]
        runs.append(Run(spec, replace(result, method=spec), row=row_of(spec), **cost_of(trained)))
    return runs, left_out


def stored_runs(
    specs: Sequence[str], protocol: MultiSession, splits: Sequence[str], parts: Path, recipe: str
) -> tuple[list[Run[MethodResult]], list[str]]:
    """Stored results of systems that move the network, and a sentence for each split without one."""
    runs, left_out = [], []
    for name in filter(moves_the_network, specs):
        kept = [one for one in stored_results(parts, protocol.digest, name, recipe) if one.split_name in splits]
        found = [(one, one.result) for one in kept if isinstance(one.result, MethodResult)]
        for memory in (False, True):
            if mine := [pair for pair in found if pair[1].memory == memory]:
                stored, results = zip(*mine, strict=True)
                result = replace(MethodResult.joined(results), method=name)
                runs.append(Run(name, result, row=STORED, **cost_of(stored)))
        if absent := [split for split in splits if split not in {one.split_name for one in kept}]:
            left_out.append(f"System {name}: no stored result for {', '.join(absent)} with recipe '{recipe}'.")
    return runs, left_out


def episode_settings(
    specs: Sequence[str], features: FeatureSet, parts: Path, shots: Sequence[int]
) -> tuple[list[Setting], list[str]]:
    """Every system with every number of shots that can run on these features, and a sentence for each that cannot."""
    settings, left_out = [], []
    kind = usual_embeddings(features)
    for spec in (spec for spec in specs if not moves_the_network(spec)):
        for number in shots:
            system = create_system(spec, parts, shots=number)
            wanted = kind if "embeddings" in system.needs else None
            reason = lacking(system, (features, find_embeddings(features, wanted) if wanted else None), number)
            if reason:
                left_out.append(f"System {spec}, {number}-shot: {reason}.")
                continue
            options = {name: value for name, value in vars(system).items() if value != getattr(type(system), name)}
            settings.append(Setting(split_spec(spec)[0], _model(spec), number, wanted, options))
    return settings, left_out


def stored_episodes(
    specs: Sequence[str], parts: Path, episodes: Episodes, shots: Sequence[int], recipe: str
) -> tuple[list[Run[EpisodeResult]], list[str]]:
    """Stored results of systems that move the network on these episodes, and what is absent.

    The same images make the same episodes whatever the network; results belong to the base session they started from.
    """
    runs, left_out = [], []
    for name, number in ((name, number) for name in filter(moves_the_network, specs) for number in shots):
        kept = stored_results(parts, episodes.first_shots(number).protocol, name, recipe)
        on_these = [(one, one.result) for one in kept if isinstance(one.result, EpisodeResult)]
        found = [pair for pair in on_these if (pair[0].items, pair[1].shots) == (episodes.items, number)]
        runs += [Run(_model(name), result, row=STORED, **cost_of([one])) for one, result in found]
        if not found:
            what = f"no stored result on these episodes with recipe '{recipe}'"
            left_out.append(f"System {name}, {number}-shot: {what}.")
    return runs, left_out


def moves_the_network(spec: str) -> bool:
    """Whether tables show stored results of this system."""
    return issubclass(method_class(split_spec(spec)[0]), NetworkSystem)


def row_of(spec: str) -> str:
    """What tables call the row of a method or system that is run now."""
    name, options = split_spec(spec)
    return RELEASED if options in FORMS.get(name, ()) else OURS


def _model(name: str) -> str:
    """What the published table calls a system."""
    return next((line.model for line in published().single_session if line.system == name), name)


def create_system(spec: str, parts: Path, shots: int | None = None) -> Learner:
    """A system with its published options; its trained part, where it has one, is looked for in a folder.

    ``shots`` is for systems that have a part for each number of them.
    """
    kind = method_class(split_spec(spec)[0])
    options = {"trained": str(parts), "shots": shots}
    return create_method(spec, **{name: v for name, v in options.items() if v is not None and hasattr(kind, name)})


def part_of(method: Learner, features: FeatureSet) -> TrainedPart | None:
    """The trained part of a system for a feature file; None for a method or a system without."""
    if not isinstance(method, TrainedSystem):
        return None
    rows = tensor_of(features.for_linear_scores().base_weight).float()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DrawnFeaturesWarning)  # tables say so by themselves
        return method.part(Base(rows))


def lacking(system: Learner, split: Split, shots: int | None = None) -> str:
    """What keeps a system from running on a feature file, as a phrase; empty if nothing does.

    With ``shots`` a part that was trained for another number of them does not count.
    """
    features, embeddings = split
    absent = missing_for(features, system, system.uses_memory, embeddings)
    if absent:
        return absent
    try:
        part = part_of(system, features)
    except TrainedPartError as error:
        return str(error).replace(str(Path.cwd()) + os.sep, "")  # documents hold no path of this machine
    if part is not None and shots is not None and (of_part := part.options.get("shots", shots)) != shots:
        return f"its part for these features, '{Path(part.path).name}', is for {of_part}-shot"
    return ""
