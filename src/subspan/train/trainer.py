"""Base sessions: one network per job, several jobs at once on one device, with logs, checkpoints and resumption."""

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.backbones.network import Network
from subspan.progress import Progress
from subspan.train import run
from subspan.train.parts.device import Execution, Processes, free_memory
from subspan.train.parts.evaluate import accuracies
from subspan.train.parts.job import Job
from subspan.train.parts.network import build_network, join_members
from subspan.train.parts.step import TrainStep
from subspan.train.recipe import Recipe, member_recipe
from subspan.values import check_options, option

_QUEUED_STEPS = 64  # the host runs at most twice this far ahead of the device


@dataclass(frozen=True)
class Runtime:
    """How the machine is used; it changes speed and rounding, not what is learned."""

    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    execution: Execution = option("auto", "graph, compiled or eager; auto: graph on a GPU")
    checkpoint_every: int = option(10, "epochs between checkpoints; 0: none")
    validate_every: int = option(5, "epochs between validations; 0: only after the last")
    progress: bool = option(True, "show progress")

    def __post_init__(self) -> None:
        check_options(self, at_least={0: ("checkpoint_every", "validate_every")})


@dataclass(frozen=True)
class Outcome:
    """What a job came to.

    Results are accuracies in percent of ``validation`` and ``test`` images, None where there are none; ``seconds`` of
    all epochs, also those before a resume; ``images_per_second`` of the whole process, best epoch; the ``execution``,
    None where the run had ended before; and of a joined network, the results of its ``members``.
    """

    job: Job
    network: Network
    results: dict[str, Any]
    members: tuple["Outcome", ...] = ()


@contextmanager
def chosen_convolutions() -> Iterator[None]:
    """Let cuDNN measure which algorithm is fastest for each shape of convolution."""
    cudnn = torch.backends.cudnn
    before, cudnn.benchmark = cudnn.benchmark, True
    try:
        yield
    finally:
        cudnn.benchmark = before


@dataclass(eq=False)
class _Trainee:
    """One job on the device."""

    job: Job
    recipe: Recipe
    store: Tensor
    processes: Processes
    runtime: Runtime
    about: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)  # of the log
    done: int = 0  # epochs
    recorded: dict[str, Any] = field(default_factory=dict)  # results of a run that had ended before

    def __post_init__(self) -> None:
        job, device = self.job, self.processes.device
        self.settings = run.RunSettings(self.recipe, job.classes, job.seed, job.name, job.split_digest, self.about)
        network = build_network(self.recipe, job.classes, job.seed)
        network.to(device=device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self.step = TrainStep(self.recipe, network, job, self.store, self.processes)
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def load(self) -> None:
        """Find the epochs already done; nothing is written yet."""
        folder = self.job.folder
        self.done = run.load_checkpoint(folder, self.step, self.settings)
        if self.done == self.recipe.epochs and (folder / run.WEIGHTS).exists():
            self.recorded = run.record_of(folder)["results"]

    def open(self) -> None:
        """Make the folder and the step ready."""
        if self.processes.first and not self.recorded:
            run.write_settings(self.job.folder, self.settings)
            self.rows = run.read_log(self.job.folder, self.done)
        if self.done < self.recipe.epochs:
            self.step.prepare(self.runtime.execution)

    def end_epoch(self, epoch: int, seconds: float, rate: float) -> dict[str, Any]:
        """Log the epoch, validate and save where due; returns the row."""
        step, processes, done, folder = self.step, self.processes, epoch + 1, self.job.folder
        last = done == self.recipe.epochs

        def due(every: int) -> bool:
            return every > 0 and done % every == 0

        processes.share_statistics(step.network)
        loss, correct = processes.sums(*step.read_counters())
        if not np.isfinite(loss):
            raise ValueError(f"the loss of {folder} is {loss} in epoch {done}; try a smaller --learning-rate")
        row: dict[str, Any] = {
            "epoch": epoch,
            "rate": float(step.rate),
            "loss": loss / (step.steps_per_epoch * processes.count),
            "accuracy": 100 * correct / (step.steps_per_epoch * self.recipe.batch_size),
            "validation": None,
            "images_per_second": rate,
            "seconds": seconds,
        }
        if due(self.runtime.validate_every) and not last:
            row |= accuracies(step.network, self.store, self.job, self.recipe, ["validation"])
        self.rows.append(row)
        if processes.first:
            run.write_log(folder, self.rows)
            if self.runtime.checkpoint_every and (due(self.runtime.checkpoint_every) or last):
                run.save_checkpoint(folder, step, self.settings, done)
        return row

    def finish(self) -> Outcome:
        """Measure the network in full precision and save it; a run that had ended before is left as it is."""
        job, network = self.job, self.step.network
        if self.recorded:
            return Outcome(job, network, self.recorded)
        results = {
            **accuracies(network, self.store, job, self.recipe),
            "seconds": sum(float(row["seconds"]) for row in self.rows),
            "images_per_second": max((float(row["images_per_second"]) for row in self.rows), default=0.0),
            "execution": self.step.execution if self.done < self.recipe.epochs else None,
        }
        if self.processes.first:
            run.save_trained(job.folder, network, self.settings, results)
        return Outcome(job, network, results)


def train(
    images: NDArray[np.uint8],
    jobs: Sequence[Job],
    recipe: Recipe,
    runtime: Runtime | None = None,
    *,
    resume: bool = False,
    about: dict[str, Any] | None = None,
) -> list[Outcome]:
    """Train one network per job, on rows of images (n, h, w, 3); several share the device, on streams of their own.

    Where the recipe has several members, each job has as many networks, which learn apart and are joined in the end.
    All jobs have equally many training images, so that epochs keep step. With ``resume``, each goes on from the
    checkpoint in its folder: one without any starts anew, one at its end is left as it is. ``about`` is recorded.
    """
    runtime = runtime or Runtime()
    recipe.check_size(images.shape[1])
    counts = {len(job.train[0]) for job in jobs}
    if len(counts) != 1:
        raise ValueError(f"jobs trained together need equal numbers of training images, got {sorted(counts)}")
    processes = Processes.start(runtime.device)
    if images.nbytes > (free := free_memory(processes.device)):
        raise ValueError(
            f"images take {images.nbytes / 1e9:.1f} GB, and of {processes.device} are {free / 1e9:.1f} free"
        )
    with chosen_convolutions():
        store = torch.from_numpy(np.ascontiguousarray(images)).to(processes.device)
        about = {"torch": torch.__version__, "device": processes.device_name, **(about or {})}
        trainees = [
            _Trainee(member, member_recipe(recipe, i), store, processes, runtime, about)
            for job in jobs
            for i, member in enumerate(job.members(recipe))
        ]
        for job in jobs:
            run.check_folders(job, recipe, resume=resume)
        for trainee in trainees:
            trainee.load()
        for trainee in trainees:
            trainee.open()
        _train(trainees, recipe, show=runtime.progress and processes.first)
        outcomes = [trainee.finish() for trainee in trainees]
        if recipe.members == 1:
            return outcomes
        each = [outcomes[i : i + recipe.members] for i in range(0, len(outcomes), recipe.members)]
        return [_join(job, recipe, members, store, processes, about) for job, members in zip(jobs, each, strict=True)]


def _join(
    job: Job, recipe: Recipe, members: Sequence[Outcome], store: Tensor, processes: Processes, about: dict[str, Any]
) -> Outcome:
    """Join the members of a job into the network of its run, measure and save it; one that is there already stays."""
    own, before, device = [m.results for m in members], run.record_of(job.folder)["results"], processes.device
    if before.get("members") == own and (job.folder / run.WEIGHTS).exists():
        network, settings = run.load_run(job.folder)
        if dataclasses.replace(settings.recipe, name=recipe.name) == recipe:
            return Outcome(job, network.to(device), before, tuple(members))
    network = join_members([member.network for member in members], recipe, store, job.train[0], device)
    # Side by side all take the same time; members added later have theirs in their own records.
    results = {**own[-1], **accuracies(network, store, job, recipe), "members": own}
    if processes.first:
        settings = run.RunSettings(recipe, job.classes, job.seed, job.name, job.split_digest, about)
        run.save_trained(job.folder, network, settings, results)
    return Outcome(job, network, results, tuple(members))


def _train(trainees: list[_Trainee], recipe: Recipe, *, show: bool) -> None:
    """All epochs that are left; a job that was ahead when the process was killed waits until others have caught up."""
    steps, first = trainees[0].step.steps_per_epoch, min(trainee.done for trainee in trainees)
    device = trainees[0].step.device
    with Progress(show=show) as bar:
        task = bar.add_task("training", total=recipe.epochs * steps, completed=first * steps)
        for epoch in range(first, recipe.epochs):
            active = [trainee for trainee in trainees if trainee.done <= epoch]
            began = time.perf_counter()
            _run_epoch(active, epoch, partial(bar.advance, task))
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds = time.perf_counter() - began
            rate = len(active) * steps * recipe.batch_size / seconds
            rows = [trainee.end_epoch(epoch, seconds, rate) for trainee in active]
            bar.update(task, description=_told(rows[0], recipe.epochs))


def _told(row: dict[str, Any], epochs: int) -> str:
    """The numbers of an epoch, for the bar."""
    text = f"epoch {row['epoch'] + 1}/{epochs}, loss {row['loss']:.3f}, accuracy {row['accuracy']:.1f} %, "
    text += f"{row['images_per_second']:,.0f} images/s"
    return text if row["validation"] is None else f"{text}, validation {row['validation']:.2f} %"


def _run_epoch(trainees: list[_Trainee], epoch: int, advance: Callable[[int], None]) -> None:
    """All steps of one epoch, the jobs taking turns; the host never runs far ahead of the device."""
    running = [(trainee.stream, trainee.step.epoch(epoch)) for trainee in trainees]
    streams = [stream for stream, _ in running if stream is not None]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream(stream.device))
    count, marks = trainees[0].step.steps_per_epoch, list[torch.cuda.Event]()
    for step in range(1, count + 1):
        for stream, steps in running:
            with torch.cuda.stream(stream):
                next(steps)
        if step % _QUEUED_STEPS == 0:
            advance(_QUEUED_STEPS)
            for mark in marks:
                mark.synchronize()
            marks = [stream.record_event() for stream in streams]
    advance(count % _QUEUED_STEPS)
