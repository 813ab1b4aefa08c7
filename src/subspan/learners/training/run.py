"""The loop that trains a part of a system: SGD or Adam over seeded steps, with progress, resumed after a kill.

Every step is a function of the seed and its number, so a run that was killed and resumed ends where an unbroken one
does, bit for bit on a CPU.
"""

import datetime
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from subspan.backbones.checkpoint import read_tensors, write_tensors
from subspan.backbones.parts.noise import derive_seed
from subspan.values import check_options, option

Tell = Callable[[str, int, int, float], object]  # stage, steps done, steps in all, loss
TELL_EVERY = 10  # steps: asking for the loss makes a GPU wait


@dataclass(frozen=True)
class Training:
    """How a system's part is trained; every system has its published values."""

    steps: int = option(1000, "steps of the training of a system's part")
    batch: int = option(8, "episodes, or examples, in a step")
    rates: tuple[float, ...] = option((1e-3,), "learning rates, one after the other")
    rate_cuts: tuple[float, ...] = option((), "shares of the steps after which the next rate holds")
    draws: int = option(500, "examples drawn for every base class where there are no real ones")
    signal: float = option(1.0, "share that these keep of the class means' distance from their common mean")
    seed: int = 0
    optimiser: Literal["adam", "sgd"] = "adam"
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        check_options(self, at_least={1: ("steps", "batch", "draws")})
        if not 0 < self.signal <= 1:
            raise ValueError(f"signal must lie in (0, 1]; got {self.signal}")
        if len(self.rates) != len(self.rate_cuts) + 1:
            raise ValueError(f"{len(self.rates)} rates need {len(self.rates) - 1} rate_cuts; got {len(self.rate_cuts)}")

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0.

        >>> settings = Training(steps=4, rates=(1.0, 0.1), rate_cuts=(0.5,))
        >>> [settings.rate(step) for step in range(4)]
        [1.0, 1.0, 0.1, 0.1]
        """
        return self.rates[sum(step >= cut * self.steps for cut in self.rate_cuts)]


@dataclass(frozen=True)
class TrainingRun:
    """Where and how a part is trained this time."""

    settings: Training
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    checkpoint: Path | None = None  # stem of the files that a killed run is resumed from
    resume: bool = False
    identity: str = ""  # of what is trained on what: a checkpoint of anything else is not resumed
    seconds_between_checkpoints: float = 20.0
    tell: Tell | None = None

    def generator(self, *purpose: str | int) -> torch.Generator:
        """Random numbers for a purpose, on the CPU, so that they are the same for every device."""
        return torch.Generator().manual_seed(derive_seed(self.settings.seed, *purpose))

    def minimise(
        self,
        parameters: Mapping[str, Tensor],
        loss: Callable[[Mapping[str, Tensor], torch.Generator], Tensor],
        stage: str = "training",
    ) -> dict[str, Tensor]:
        """Train parameters from where they are; ``loss`` draws what a step needs from the generator it is given."""
        settings = self.settings
        live = {name: p.detach().to(self.device).clone().requires_grad_() for name, p in parameters.items()}
        optimiser = _optimiser(settings, list(live.values()))
        first = self._restore(stage, live, optimiser) if self.resume else 0
        kept = time.monotonic()
        for step in range(first, settings.steps):
            for group in optimiser.param_groups:
                group["lr"] = settings.rate(step)
            optimiser.zero_grad()
            value = loss(live, self.generator(stage, step))
            value.backward()
            optimiser.step()
            done = step + 1
            if done % TELL_EVERY == 0 or done == settings.steps:
                found = float(value.detach())
                if found != found or abs(found) == float("inf"):
                    raise ValueError(f"the loss is {found} after {done} steps; try smaller --rates")
                if self.tell is not None:
                    self.tell(stage, done, settings.steps, found)
            if done == settings.steps or time.monotonic() - kept > self.seconds_between_checkpoints:
                self._keep(stage, live, optimiser, done)
                kept = time.monotonic()
        return {name: p.detach().clone() for name, p in live.items()}

    def record(self, began: float) -> dict[str, Any]:
        """What is stored beside a result: the settings, seconds since ``began``, device and date."""
        gpu = self.device.type != "cpu"
        return {
            "training": asdict(self.settings),
            "seed": self.settings.seed,
            "seconds": round(time.perf_counter() - began, 1),
            "device": torch.cuda.get_device_name(self.device) if gpu else str(self.device),
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        }

    def clear(self) -> None:
        """Remove the checkpoints, once what they led to is written."""
        if self.checkpoint is not None:
            for path in self.checkpoint.parent.glob(f"{self.checkpoint.name}.*.checkpoint"):
                path.unlink()

    def _path(self, stage: str) -> Path | None:
        stem = self.checkpoint
        return None if stem is None else stem.with_name(f"{stem.name}.{stage}.checkpoint")

    def _about(self) -> str:
        return json.dumps([self.identity, asdict(self.settings)], sort_keys=True)

    def _keep(self, stage: str, live: Mapping[str, Tensor], optimiser: torch.optim.Optimizer, done: int) -> None:
        path = self._path(stage)
        if path is None:
            return
        tensors = {f"parameter {name}": p for name, p in live.items()}
        for i, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser {i} {key}": torch.as_tensor(v) for key, v in state.items() if v is not None}
        write_tensors(path, tensors, {"about": self._about(), "done": done})

    def _restore(self, stage: str, live: Mapping[str, Tensor], optimiser: torch.optim.Optimizer) -> int:
        """Continue from the checkpoint of a stage, if there is one: the steps it has done."""
        path = self._path(stage)
        if path is None or not path.exists():
            return 0
        tensors, meta = read_tensors(path)
        if meta.get("about") != self._about():
            raise ValueError(
                f"'{path}' cannot be resumed: it is of another training; leave out --resume to start again"
            )
        with torch.no_grad():
            for name, p in live.items():
                p.copy_(tensors.pop(f"parameter {name}"))
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            _, i, key = name.split()
            state.setdefault(int(i), {})[key] = tensor
        optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        return int(meta["done"])


def _optimiser(settings: Training, values: list[Tensor]) -> torch.optim.Optimizer:
    if settings.optimiser == "adam":
        return torch.optim.Adam(values, lr=settings.rates[0], weight_decay=settings.weight_decay)
    return torch.optim.SGD(
        values,
        lr=settings.rates[0],
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
        weight_decay=settings.weight_decay,
    )
