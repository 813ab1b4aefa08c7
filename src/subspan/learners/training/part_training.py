"""Training the part of a system that is trained on the base classes, into a file."""

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from subspan.files.arrays import check_suffix
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.trained_part import TrainedPart, signature_of
from subspan.learners.training.trained_system import TrainedSystem
from subspan.progress import shown_stages


def train_system(
    system: TrainedSystem,
    training: Mapping[str, Any],
    seed: int,
    features: Callable[[Training], TrainingFeatures],
    out: Path,
    device: torch.device,
    *,
    resume: bool,
    made: Mapping[str, Any],
) -> TrainedPart:
    """Train and write a part; ``made`` is stored beside it."""
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
    about = {
        **run.record(began),
        "steps": settings.steps,
        **made,
        "classes": found.class_count,
        "turned": found.turned is not None,
    }
    part = TrainedPart(
        system.name, system.part_options(), tensors, found.width, tuple(signature.tolist()), found.source, about
    )
    part.save(out)
    run.clear()
    return part
