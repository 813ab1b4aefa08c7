"""``subspan train --system NAME``: the part of a system that is trained on the base classes, into a file."""

import dataclasses
import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path

import torch
from numpy.typing import NDArray
from rich.console import Console

from subspan.cli.facts import version
from subspan.cli.flags import Values
from subspan.experiments.named_features import find_embeddings
from subspan.features.feature_set import FeatureSet
from subspan.files.arrays import check_suffix
from subspan.learners.parts.system import TrainedSystem
from subspan.learners.parts.trained_part import TrainedPart, signature_of
from subspan.learners.parts.training_features import TrainingFeatures
from subspan.learners.parts.training_run import Training, TrainingRun
from subspan.learners.registry import create_method, list_methods, method_class
from subspan.progress import shown_stages


def trained_system(spec: str) -> TrainedSystem:
    """The system to train, from its name or ``name:option=value,...``."""
    system = create_method(spec)
    if not isinstance(system, TrainedSystem):
        trained = [name for name in list_methods("system") if issubclass(method_class(name), TrainedSystem)]
        raise ValueError(f"'{system.name}' has no part to train; the systems that have are {', '.join(trained)}")
    return dataclasses.replace(system, trained="")


def embeddings_for(system: TrainedSystem, features: FeatureSet, wanted: str | None) -> NDArray | None:
    """Embeddings (C0 + C1, e) of the classes, where the system needs them."""
    if "embeddings" not in system.needs:
        return None
    found = find_embeddings(features, wanted)
    if found is None:
        raise ValueError(
            f"system '{system.name}' needs embeddings of the classes; name a set or a file with --embeddings"
        )
    return found


def train_system(
    system: TrainedSystem,
    training: Values,
    seed: int,
    features: Callable[[Training], TrainingFeatures],
    out: Path,
    device: torch.device,
    *,
    resume: bool,
) -> TrainedPart:
    """Train and write a part; tell what came of it."""
    check_suffix(out, "a trained part", ValueError)
    settings = dataclasses.replace(system.training, **training, seed=seed)
    found = features(settings)
    signature = signature_of(found.base.rows)
    identity = json.dumps(
        [system.name, system.part_options(), found.source, signature.tolist(), float(found.features.sum())]
    )
    began = time.perf_counter()
    with shown_stages() as tell:
        run = TrainingRun(settings, device, out, resume, identity, tell=tell)
        tensors = system.train_part(found.to(device), run)
    seconds = time.perf_counter() - began
    about = {
        "training": dataclasses.asdict(settings),
        "steps": settings.steps,
        "seed": seed,
        "seconds": round(seconds, 1),
        "device": str(device) if device.type == "cpu" else torch.cuda.get_device_name(device),
        "version": version(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "classes": found.class_count,
        "turned": found.turned is not None,
    }
    part = TrainedPart(
        system.name, system.part_options(), tensors, found.width, tuple(signature.tolist()), found.source, about
    )
    part.save(out)
    run.clear()
    Console().print(
        f"{out}: part of {system.name}, trained on {found.source} features of {found.class_count} classes, "
        f"{settings.steps} steps in {seconds:.1f} s; {out.stat().st_size / 1e6:.2f} MB. "
        f"Run it as {system.name}:trained={out}",
        highlight=False,
        soft_wrap=True,
    )
    return part
