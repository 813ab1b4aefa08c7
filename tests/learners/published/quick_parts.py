"""Trained systems for tests: their parts trained in a second on the base classes at hand, in a folder of their own."""

import dataclasses
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import torch

from subspan import IncrementalClassifier, checks
from subspan.engine.contract import Base, Learner
from subspan.features.feature_set import FeatureSet
from subspan.learners.registry import create_method, spec_of
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import TrainingRun
from subspan.learners.training.trained_part import TrainedPart, signature_of
from subspan.learners.training.trained_system import TrainedSystem

# The published settings are for hours on a GPU; these for the few classes and dimensions of made-up features.
QUICK = {
    "lwof": {"steps": 300, "batch": 16, "rates": (0.1, 0.01), "rate_cuts": (0.7,)},
    "attractor": {"steps": 25, "batch": 4, "rates": (0.1, 0.03), "rate_cuts": (0.6,)},
    "cec": {"steps": 400, "rates": (5e-3, 1e-3), "rate_cuts": (0.6,), "optimiser": "adam"},
    "etf": {"steps": 200, "batch": 128},
    "idlvq": {"steps": 300, "batch": 128, "rates": (1e-2, 1e-3)},
    "semantic-distill": {"steps": 400, "batch": 128, "rates": (1e-2, 1e-3)},
}
OPTIONS = {
    "attractor": {"shots": 2},
    "cec": {"ways": 6, "queries": 4},
    "etf": {"classes": 26, "width": 32},
    "semantic-distill": {"superclasses": 3, "width": 8, "hidden": 32},
}
_FOLDER = tempfile.TemporaryDirectory()


def quick_run(system: TrainedSystem, **changes) -> TrainingRun:
    """How a system is trained in tests."""
    return TrainingRun(dataclasses.replace(system.training, **{**QUICK.get(system.name, {}), **changes}))


def untrained(spec: str) -> Learner:
    """The method of a spec, a trained system with options small enough for made-up features."""
    return create_method(spec, **OPTIONS.get(spec.partition(":")[0], {}))


def write_part(system: TrainedSystem, features: TrainingFeatures, path: Path, **changes) -> Path:
    """Train a part quickly and write it."""
    tensors = system.train_part(features, quick_run(system, **changes))
    signature = tuple(signature_of(features.base.rows).tolist())
    part = TrainedPart(system.name, system.part_options(), tensors, features.width, signature, features.source)
    return part.save(path)


def with_part(spec: str, features: FeatureSet) -> Learner:
    """The method of a spec; a trained system with a part trained on draws from these features."""
    system = untrained(spec)
    if not isinstance(system, TrainedSystem) or system.trained:
        return system
    return dataclasses.replace(system, trained=_part_for(spec, _Key(features)))


def spec_for_checks(spec: str) -> str:
    """The spec with parts for the base classes of the common checks, whose models have a bias or have none."""
    system = untrained(spec)
    if not isinstance(system, TrainedSystem):
        return spec
    return spec_of(dataclasses.replace(system, trained=_parts_for_checks(spec)))


class _Key:
    """A feature set as the key of a cache: by its base rows."""

    def __init__(self, features: FeatureSet) -> None:
        self.features = features

    def __hash__(self) -> int:
        return hash(self.features.base_weight.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and np.array_equal(self.features.base_weight, other.features.base_weight)


@cache
def _part_for(spec: str, key: _Key) -> str:
    system = untrained(spec)
    assert isinstance(system, TrainedSystem)
    path = Path(_FOLDER.name) / f"part-{abs(hash((spec, key)))}.safetensors"
    words = key.features.embeddings.get("words")
    return str(write_part(system, TrainingFeatures.drawn(key.features, 60, seed=0, embeddings=words), path))


@cache
def _parts_for_checks(spec: str) -> str:
    system = untrained(spec)
    assert isinstance(system, TrainedSystem)
    folder = Path(_FOLDER.name) / f"checks-{spec.replace(':', '-')}"
    X, y = checks._examples(checks.BASE, 8, seed=0)
    examples = torch.tensor(X, dtype=torch.float32).unflatten(0, (len(checks.BASE), 8))
    counts = torch.full((len(examples),), 8)
    for bias in (True, False):
        model = IncrementalClassifier(method="finetune", bias=bias).fit(X, y)
        rows, intercept = (torch.tensor(array, dtype=torch.float32) for array in (model.coef_, model.intercept_))
        words = torch.tensor(np.stack([checks._direction(name)[:5] * 4 for name in checks.BASE]), dtype=torch.float32)
        base = Base(rows, examples.mean(1), words)
        features = TrainingFeatures(examples, counts, base, "real", intercept if bias else None)
        write_part(system, features, folder / f"bias-{bias}.safetensors")
    return str(folder)
