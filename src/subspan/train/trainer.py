"""Base sessions: one network per job, several jobs at once on one device, with logs, checkpoints and resumption."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.backbones.blocks import Statistics
from subspan.backbones.network import Network
from subspan.progress import Progress
from subspan.train import logs, run
from subspan.train.distributed import Processes
from subspan.train.evaluate import Part, job_accuracy
from subspan.train.job import Job
from subspan.train.members import check_folders, join_members, member_jobs
from subspan.train.recipe import Recipe, build_network, member_recipe
from subspan.train.source import Residence, ResidentImages, StreamedImages, place_images
from subspan.train.step import Execution, TrainStep
from subspan.values import check_options, option

_QUEUED_STEPS = 64  # the host runs at most twice this far ahead of the device


@dataclass(frozen=True)
class Runtime:
    """How the machine is used; it changes speed and rounding, not what is learned."""

    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    execution: Execution = option("auto", "graph, compiled or eager; auto: graph on a GPU")
    statistics: Statistics = option("sums", "batch statistics in a compiled step: from sums, or plain, slower")
    images: Residence = option("auto", "keep images on the device or stream them from the host")
    checkpoint_every: int = option(10, "epochs between checkpoints; 0: none")
    validate_every: int = option(5, "epochs between validations; 0: only after the last")
    tensorboard: bool = option(True, "write TensorBoard records")
    progress: bool = option(True, "show progress")

    def __post_init__(self) -> None:
        check_options(self, at_least={0: ("checkpoint_every", "validate_every")})


@dataclass(frozen=True)
class Outcome:
    """What a job came to; accuracies in percent, NaN where there are no such images."""

    job: Job
    network: Network
    device: torch.device
    execution: Execution | None  # None: not known, the run had ended before
    validation: float
    test: float
    seconds: float  # of all epochs, also those before a resume
    images_per_second: float  # of the whole process, best epoch
    members: tuple["Outcome", ...] = ()  # of a joined network

    def results(self) -> dict[str, Any]:
        """For the records."""
        return {
            "validation": None if np.isnan(self.validation) else self.validation,
            "test": None if np.isnan(self.test) else self.test,
            "seconds": self.seconds,
            "images_per_second": self.images_per_second,
            "execution": self.execution,
        }

    @classmethod
    def recorded(cls, job: Job, network: Network, device: torch.device, results: dict[str, Any]) -> "Outcome":
        """The inverse of :meth:`results`."""
        validation, test = (np.nan if results[part] is None else results[part] for part in get_args(Part))
        speed = results["seconds"], results["images_per_second"]
        return cls(job, network, device, results["execution"], validation, test, *speed)


@contextmanager
def chosen_convolutions() -> Iterator[None]:
    """Let cuDNN measure which algorithm is fastest for each shape of convolution."""
    cudnn = torch.backends.cudnn
    before, cudnn.benchmark = cudnn.benchmark, True
    try:
        yield
    finally:
        cudnn.benchmark = before


class _Trainee:
    """One job on the device."""

    def __init__(
        self,
        job: Job,
        recipe: Recipe,
        images: NDArray[np.uint8],
        store: Tensor | None,
        processes: Processes,
        runtime: Runtime,
        about: dict[str, Any],
    ) -> None:
        self.job, self.recipe, self.runtime, self.processes = job, recipe, runtime, processes
        device = processes.device
        self.settings = run.RunSettings(recipe, job.classes, job.seed, job.name, job.split_digest, about)
        network = build_network(recipe, job.classes, job.seed)
        network.to(device=device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        model, backward = processes.wrap(network, job.seed)
        local = recipe.batch_size // processes.share.processes
        source = ResidentImages(store) if store is not None else StreamedImages(images, local, device)
        self.images: NDArray[np.uint8] | Tensor = images if store is None else store
        self.step = TrainStep(
            recipe,
            network,
            source,
            job.train_rows,
            job.train_labels,
            job.classes,
            seed=job.seed,
            device=device,
            share=processes.share,
            model=model,
            backward=backward,
        )
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.csv: logs.CsvLog | None = None
        self.board: logs.TensorBoardLog | None = None
        self.done = 0  # epochs
        self.recorded: dict[str, Any] = {}  # results of a run that had ended before

    def load(self, resume: bool) -> None:
        """Find the epochs already done; nothing is written yet."""
        folder = self.job.folder
        if not resume and (folder / run.CHECKPOINT).exists():
            raise ValueError(f"{folder} holds a checkpoint already: resume it, or choose another folder")
        self.done = run.load_checkpoint(folder, self.step, self.settings) if resume else 0
        if self.done == self.recipe.epochs:
            self.recorded = run.results_of(folder) if (folder / run.WEIGHTS).exists() else {}

    def open(self) -> None:
        """Make the folder ready."""
        folder, done = self.job.folder, self.done
        if self.processes.first and not self.recorded:
            folder.mkdir(parents=True, exist_ok=True)
            run.write_json(folder / run.SETTINGS, self.settings.to_dict())
            self.csv = logs.CsvLog(folder / run.LOG, done)
            self.board = logs.TensorBoardLog(folder / run.BOARD, done) if self.runtime.tensorboard else None

    def on_stream(self) -> AbstractContextManager[object]:
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def accuracy(self, part: Part, *, bf16: bool = False) -> float:
        return job_accuracy(self.step.network, self.images, self.job, part, self.recipe, self.step.device, bf16=bf16)

    def end_epoch(self, epoch: int, seconds: float, rate: float) -> dict[str, Any]:
        """Log the epoch, validate and save where due; returns the row."""
        recipe, last = self.recipe, epoch + 1 == self.recipe.epochs
        self.processes.share_statistics(self.step.network)
        steps = self.step.steps_per_epoch
        loss, correct = self.processes.sums(*self.step.read_counters())
        if not np.isfinite(loss):
            raise ValueError(
                f"the loss of {self.job.folder} is {loss} in epoch {epoch + 1}; try a smaller --learning-rate"
            )
        row: dict[str, Any] = {
            "epoch": epoch,
            "rate": float(self.step.rate),
            "loss": loss / (steps * self.processes.share.processes),
            "accuracy": 100 * correct / (steps * recipe.batch_size),
            "validation": "",
            "images_per_second": rate,
            "seconds": seconds,
        }
        every = self.runtime.validate_every
        if len(self.job.validation_rows) and not last and every and (epoch + 1) % every == 0:
            row["validation"] = self.accuracy("validation", bf16=self.step.device.type == "cuda")
        for log in (self.csv, self.board):
            if log is not None:
                log.write(row)
        every = self.runtime.checkpoint_every
        if self.processes.first and every and ((epoch + 1) % every == 0 or last):
            run.save_checkpoint(self.job.folder, self.step, self.settings, epoch + 1)
        return row

    def finish(self, seconds: float, rate: float) -> Outcome:
        """Measure the network in full precision and save it; a run that had ended before is left as it is."""
        step, job = self.step, self.job
        if self.recorded:
            return Outcome.recorded(job, step.network, step.device, self.recorded)
        if self.csv is not None:  # it has the epochs before a resume too
            seconds, rate = self.csv.seconds, self.csv.best_rate
        execution = step.execution if self.done < self.recipe.epochs else None
        validation, test = self.accuracy("validation"), self.accuracy("test")
        outcome = Outcome(job, step.network, step.device, execution, validation, test, seconds, rate)
        if self.processes.first:
            run.save_trained(job.folder, step.network, self.settings, outcome.results())
        return outcome


def _join(
    job: Job,
    recipe: Recipe,
    members: Sequence[Outcome],
    images: NDArray[np.uint8] | Tensor,
    processes: Processes,
    about: dict[str, Any],
) -> Outcome:
    """Join the members of a job into the network of its run, measure and save it; one that is there already stays."""
    networks, device = [member.network for member in members], members[0].device
    own, before = [member.results() for member in members], run.results_of(job.folder)
    if before.get("members") == own and (job.folder / run.WEIGHTS).exists():
        network, settings = run.load_run(job.folder)
        if settings.recipe.digest() == recipe.digest():
            return replace(Outcome.recorded(job, network.to(device), device, before), members=tuple(members))
    network = join_members(networks, recipe, images, job.train_rows, device)
    validation, test = (job_accuracy(network, images, job, part, recipe, device) for part in get_args(Part))
    last = members[-1]  # side by side all take the same time; those added later have theirs in their own records
    spent = last.seconds, last.images_per_second
    outcome = Outcome(job, network, device, last.execution, validation, test, *spent, tuple(members))
    if processes.first:
        settings = run.RunSettings(recipe, job.classes, job.seed, job.name, job.split_digest, about)
        run.save_trained(job.folder, network, settings, {**outcome.results(), "members": own})
    return outcome


def train(
    images: NDArray[np.uint8],
    jobs: Sequence[Job],
    recipe: Recipe,
    runtime: Runtime | None = None,
    *,
    resume: bool = False,
    about: dict[str, Any] | None = None,
) -> list[Outcome]:
    """Train one network per job with one recipe; several jobs share the device, each on a stream of its own.

    Where the recipe has several members, each job has as many networks, which learn apart and are joined in the end.

    Args:
        images: uint8 (n, h, w, 3); the jobs' rows index them.
        jobs: what each network learns. All must have the same number of training images, so that epochs keep step.
        resume: go on from each folder's checkpoint; a folder without one starts anew, one at its end is left as it is.
        about: what else to write into run.json (commit, command).
    """
    runtime = runtime or Runtime()
    counts = {len(job.train_rows) for job in jobs}
    if len(counts) != 1:
        raise ValueError(f"jobs trained together need equal numbers of training images, got {sorted(counts)}")
    processes = Processes.start(runtime.device)
    with chosen_convolutions():
        store = place_images(images, runtime.images, processes.device)
        about = {"torch": torch.__version__, "device": processes.device_name, **(about or {})}
        trainees = [
            _Trainee(member, member_recipe(recipe, i), images, store, processes, runtime, about)
            for job in jobs
            for i, member in enumerate(member_jobs(job, recipe))
        ]
        for job in jobs:
            check_folders(job, recipe)
        for trainee in trainees:
            trainee.load(resume)
        for trainee in trainees:
            trainee.open()
        for trainee in trainees:
            if trainee.done < recipe.epochs:
                trainee.step.prepare(processes.execution(runtime.execution), runtime.statistics)
        spent = _train(trainees, recipe, show=runtime.progress and processes.first)
        outcomes = [trainee.finish(*spent) for trainee in trainees]
        if not recipe.joined:
            return outcomes
        shown, count = images if store is None else store, recipe.members
        return [
            _join(job, recipe, outcomes[i * count : (i + 1) * count], shown, processes, about)
            for i, job in enumerate(jobs)
        ]


def _train(trainees: list[_Trainee], recipe: Recipe, *, show: bool) -> tuple[float, float]:
    """All epochs that are left; seconds, and images per second of the best epoch.

    A job that was ahead when the process was killed waits until the others have caught up.
    """
    steps, first = trainees[0].step.steps_per_epoch, min(trainee.done for trainee in trainees)
    device = trainees[0].step.device
    start, best = time.perf_counter(), 0.0
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
            best = max(best, rate)
            rows = [trainee.end_epoch(epoch, seconds, rate) for trainee in active]
            bar.update(task, description=_told(rows[0], recipe.epochs))
    return time.perf_counter() - start, best


def _told(row: dict[str, Any], epochs: int) -> str:
    """The numbers of an epoch, for the bar."""
    text = f"epoch {row['epoch'] + 1}/{epochs}, loss {row['loss']:.3f}, accuracy {row['accuracy']:.1f} %, "
    text += f"{row['images_per_second']:,.0f} images/s"
    return text if row["validation"] == "" else f"{text}, validation {row['validation']:.2f} %"


def _run_epoch(trainees: list[_Trainee], epoch: int, advance: Callable[[int], None]) -> None:
    """All steps of one epoch, the jobs taking turns; the host never runs far ahead of the device."""
    running = []
    for trainee in trainees:
        if trainee.stream is not None:
            trainee.stream.wait_stream(torch.cuda.current_stream(trainee.step.device))
        running.append((trainee, trainee.step.epoch(epoch)))
    marks: list[torch.cuda.Event] = []
    for step in range(trainees[0].step.steps_per_epoch):
        for trainee, steps in running:
            with trainee.on_stream():
                next(steps)
        if (step + 1) % _QUEUED_STEPS == 0:
            advance(_QUEUED_STEPS)
            if running[-1][0].stream is not None:
                for mark in marks:
                    mark.synchronize()
                marks = [stream.record_event() for t, _ in running if (stream := t.stream) is not None]
    advance(trainees[0].step.steps_per_epoch % _QUEUED_STEPS)
    for trainee, steps in running:
        with trainee.on_stream():
            for _ in steps:  # lets a streaming source end its thread
                raise RuntimeError("an epoch had more steps than it should")
