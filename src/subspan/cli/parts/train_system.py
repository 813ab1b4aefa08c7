"""``subspan train --system NAME``: the trained part of a system, or, of one that moves the network, its result."""

import dataclasses
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from subspan.cli.parts.facts import command_line, version
from subspan.cli.parts.flags import Values, explained_fields
from subspan.cli.parts.runs import features_of, open_run
from subspan.cli.parts.tables import show
from subspan.engine.contract import Learner
from subspan.experiments.metrics import interval_half_width
from subspan.experiments.named_features import find_embeddings, named
from subspan.experiments.results import EpisodeResult, MethodResult
from subspan.features.feature_set import FeatureSet
from subspan.files.arrays import check_suffix
from subspan.learners.registry import create_method, list_methods, method_class, spec_of
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.network_system import NetworkSystem
from subspan.learners.training.run import Training
from subspan.learners.training.trained_system import TrainedSystem
from subspan.paper.network_systems import store_result
from subspan.train.collect import Contents
from subspan.train.pack import collect_base
from subspan.train.parts.device import find_device

_WITH_FILE = {"system", "features", "out", "seed", "resume", "device"} | {f.name for f in explained_fields(Training)}
_WITH_RUN = _WITH_FILE - {"features", "draws", "signal"} | {"run", "data", "lists"}


@dataclasses.dataclass(frozen=True)
class Source:
    """What a system learns from: a feature file, or a run and its images."""

    features: Path | None
    run: Path | None
    data: Path | None
    lists: Path | None
    embeddings: str | None


def train_a_system(
    spec: str,
    source: Source,
    training: Values,
    seed: int,
    out: Path | None,
    device: str,
    *,
    resume: bool,
    given: Mapping[str, str],
) -> None:
    """Train the system of ``name:option=value,...`` and tell what came of it; ``given`` are all options that were."""
    system, made, chosen = create_method(spec), {"version": version()}, find_device(device)
    if isinstance(system, NetworkSystem):
        if source.run is None or source.data is None or out is None:
            raise ValueError(f"system '{system.name}' moves the network: it needs --run, --data and --out FILE.json")
        _refuse_unused(given, _WITH_RUN, system.name)
        run = open_run(source.run, source.data, source.lists)
        made["command"] = command_line(folders=False)
        found = (run.network, run.settings), run.images, run.split
        stored = store_result(system, training, seed, *found, out, chosen, resume=resume, made=made)
        took = f"{stored.about['seconds']} s on {stored.about['device']}"
        show(f"{out}: {spec_of(system)} on {stored.split}, {_told(stored.result)}; {took}")
        return
    system = _trained_system(system)
    if out is None:
        raise ValueError("the part of a system is written to a file; name it with --out FILE.npz or .safetensors")
    if (source.features is None) == (source.run is None):
        raise ValueError("a system learns on a feature file (draws) or on --run and --data (real features); name one")
    used = _WITH_FILE if source.run is None else _WITH_RUN
    _refuse_unused(given, used | (system.needs & {"embeddings"}), system.name)
    settings = dataclasses.replace(system.training, **training, seed=seed)
    check_suffix(out, "a trained part", ValueError)
    found = _training_features(system, source, settings, chosen)
    part = system.train(settings, found, out, chosen, resume=resume, made=made)
    show(
        f"{out}: part of {part.system}, trained on {part.source} features of {part.about['classes']} classes, "
        f"{part.about['steps']} steps in {part.about['seconds']:.1f} s; {out.stat().st_size / 1e6:.2f} MB. "
        f"Run it as {part.system}:trained={out}"
    )


def _trained_system(system: Learner) -> TrainedSystem:
    if not isinstance(system, TrainedSystem):
        trained = [name for name in list_methods("system") if issubclass(method_class(name), TrainedSystem)]
        raise ValueError(f"'{system.name}' has no part to train; the systems that have are {', '.join(trained)}")
    return dataclasses.replace(system, trained="")


def _training_features(
    system: TrainedSystem, source: Source, training: Training, device: torch.device
) -> TrainingFeatures:
    """Real features of a run, or draws."""
    if source.run is not None and source.data is None:
        raise ValueError("the real features of a run need its images; name them with --data")
    if source.run is None or source.data is None:
        features = named(FeatureSet.load(source.features or Path()))
        vectors = _embeddings(system, features, source)
        return TrainingFeatures.drawn(features, training.draws, training.seed, vectors, signal=training.signal)
    run = open_run(source.run, source.data, source.lists)
    extractor = run.extractor(str(device))
    features = features_of(run, extractor, Contents())
    vectors = _embeddings(system, features, source)
    plain, turned = collect_base(extractor, run.images, run.split, turned=system.uses_turned)
    return TrainingFeatures.real(features, plain, turned, vectors)


def _embeddings(system: TrainedSystem, features: FeatureSet, source: Source) -> NDArray[Any] | None:
    if "embeddings" not in system.needs:
        return None
    vectors = find_embeddings(features, source.embeddings)
    if vectors is None:
        raise ValueError(
            f"system '{system.name}' needs embeddings of the classes; name a set or a file with --embeddings"
        )
    return vectors


def _refuse_unused(given: Mapping[str, str], used: Set[str], system: str) -> None:
    """Refuse what was given and says nothing about the training of a system."""
    unused = [written for name, written in given.items() if name not in used]
    if unused:
        source = "a feature file" if "features" in used else "a run"
        raise ValueError(f"the training of system '{system}' on {source} takes no {', '.join(unused)}")


def _told(result: MethodResult | EpisodeResult) -> str:
    if isinstance(result, EpisodeResult):
        half = float(interval_half_width(result.joint))
        return f"{result.shots} shots, {result.joint.mean():.2f} +- {half:.2f} %, Delta {result.delta.mean():.2f}"
    weighted = np.mean(result.weighted, axis=0)
    return "weighted accuracy after each session " + " ".join(f"{value:.2f}" for value in weighted)
