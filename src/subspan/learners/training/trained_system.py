"""Systems with a part that is trained on the base classes: how that is done and where the result is found."""

import json
import time
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from subspan.engine.contract import Base
from subspan.learners.parts.system import System
from subspan.learners.training.features import TrainingFeatures
from subspan.learners.training.run import Training, TrainingRun
from subspan.learners.training.trained_part import TrainedPart, TrainedPartError, find_part, signature_of
from subspan.progress import shown_stages
from subspan.values import option


class DrawnFeaturesWarning(UserWarning):
    """A trained part has never seen real features; tables say so."""


@dataclass(frozen=True)
class TrainedSystem(System):
    """A system with a part that is trained once, on the base classes, before any session.

    `subspan train --system NAME` writes what `train_part` gives with the system's options; the option ``trained`` names
    that file, or a folder in which the one that belongs to the base rows at hand is found. Options
    that were not set are those that the part was trained with.
    """

    training: ClassVar[Training]  # the published settings
    of_the_part: ClassVar[tuple[str, ...]] = ()  # options that the part depends on; without: all of them
    uses_turned: ClassVar[bool] = False  # trains on features of turned images, too, where images are at hand
    trained: str = option("", "file of its trained part, or a folder of such, from: subspan train --system NAME")

    @abstractmethod
    def train_part(self, features: TrainingFeatures, run: TrainingRun) -> dict[str, Tensor]:
        """Train on the base classes: the tensors that a session needs. Features are on the run's device."""

    def train(
        self,
        settings: Training,
        found: TrainingFeatures,
        out: Path,
        device: torch.device,
        *,
        resume: bool,
        made: Mapping[str, Any],
    ) -> TrainedPart:
        """Train and write a part; ``made`` is stored beside it."""
        options, signature = self.part_options(), signature_of(found.base.rows).tolist()
        identity = json.dumps([self.name, options, found.source, signature, float(found.features.sum())])
        began = time.perf_counter()
        with shown_stages() as tell:
            run = TrainingRun(settings, device, out, resume, identity, tell=tell)
            tensors = self.train_part(found.to(device), run)
        about = {**run.record(began), "steps": settings.steps, **made}
        about |= {"classes": found.class_count, "turned": found.turned is not None}
        part = TrainedPart(self.name, options, tensors, found.width, tuple(signature), found.source, about)
        part.save(out)
        run.clear()
        return part

    def part(self, base: Base) -> TrainedPart:
        """The trained part for these base rows; one sentence where there is none."""
        if not self.trained:
            raise TrainedPartError(
                f"system '{self.name}' needs a trained part; make it with: subspan train --system {self.name} FEATURES "
                f"--out FILE, and run {self.name}:trained=FILE"
            )
        options = self.part_options()
        defaults = {f.name: f.default for f in fields(self)}
        chosen = {name: value for name, value in options.items() if value != defaults[name]}
        found = find_part(self.trained, self.name, base.rows, chosen, options)
        if found.source == "drawn":
            warnings.warn(
                f"{self.name}: its part was trained on features drawn from a file's statistics, not on real ones",
                DrawnFeaturesWarning,
                stacklevel=1,  # one place, so that it is said once
            )
        return found

    def part_options(self) -> dict[str, Any]:
        """The options that its part depends on."""
        names = self.of_the_part or [f.name for f in fields(self) if f.name != "trained"]
        return {name: getattr(self, name) for name in names}

    def as_trained(self, part: TrainedPart) -> Self:
        """The same system with the options of its part."""
        known = {f.name for f in fields(self)}
        return replace(self, **{name: value for name, value in part.options.items() if name in known})
