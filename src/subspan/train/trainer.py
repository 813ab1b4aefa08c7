"""Base sessions: one network per job, several jobs at once on one device, with logs, checkpoints and resumption."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.backbones import pad_inputs
from subspan.data import ImageSet, Split
from subspan.train import logs, run
from subspan.train.distributed import Processes
from subspan.train.evaluate import accuracy
from subspan.train.recipe import Recipe, build_learner
from subspan.train.source import Residence, ResidentImages, StreamedImages, place_images
from subspan.train.step import Execution, TrainStep

_QUEUED_STEPS = 64  # the host runs at most twice this far ahead of the device


@dataclass(frozen=True, eq=False)
class Job:
    """What one network learns: rows of an array of images and their classes, 0 .. classes - 1.

    Validation and test images are those of the first ``base_classes`` classes, and only their logits compete.
    """

    name: str
    folder: Path
    seed: int
    classes: int
    base_classes: int
    train_rows: NDArray[np.int64]
    train_labels: NDArray[np.int64]
    validation_rows: NDArray[np.int64]
    validation_labels: NDArray[np.int64]
    test_rows: NDArray[np.int64]
    test_labels: NDArray[np.int64]
    split_digest: str = ""

    @classmethod
    def from_split(cls, images: ImageSet, split: Split, folder: Path, seed: int) -> "Job":
        """The base session of a split."""
        label_of = np.full(len(images.class_names), -1, dtype=np.int64)
        label_of[list(split.training_classes)] = np.arange(len(split.training_classes))
        labels = label_of[images.labels]
        rows = split.training_images, split.base_validation, split.base_test
        (train, train_labels), (validation, validation_labels), (test, test_labels) = ((r, labels[r]) for r in rows)
        return cls(
            name=split.name,
            folder=folder,
            seed=seed,
            classes=len(split.training_classes),
            base_classes=len(split.base_classes),
            train_rows=train,
            train_labels=train_labels,
            validation_rows=validation,
            validation_labels=validation_labels,
            test_rows=test,
            test_labels=test_labels,
            split_digest=split.digest(),
        )


@dataclass(frozen=True)
class Runtime:
    """How the machine is used; it changes speed, not what is learned."""

    device: str = field(default="auto", metadata={"help": "auto, cpu, cuda or cuda:N"})
    execution: Execution = field(default="auto", metadata={"help": "graph, compiled or eager; auto: graph on a GPU"})
    compile_mode: str = field(default="default", metadata={"help": "mode of torch.compile, or tuned"})
    compile_loss: bool = field(default=False, metadata={"help": "compile the loss too"})
    pad_inputs: int = field(default=0, metadata={"help": "compute convolutions with at least this many channels in"})
    algorithms: int = field(default=10, metadata={"help": "how many algorithms cuDNN tries per convolution; 0: all"})
    images: Residence = field(
        default="auto", metadata={"help": "keep images on the device or stream them from the host"}
    )
    checkpoint_every: int = field(default=10, metadata={"help": "epochs between checkpoints; 0: none"})
    validate_every: int = field(default=5, metadata={"help": "epochs between validations; 0: only after the last"})
    tensorboard: bool = field(default=True, metadata={"help": "write TensorBoard records"})
    progress: bool = field(default=True, metadata={"help": "show progress"})


@dataclass(frozen=True)
class Outcome:
    """What a job came to; accuracies in percent, NaN where there are no such images."""

    job: Job
    step: TrainStep
    validation: float
    test: float
    seconds: float  # of all epochs, also those before a resume
    images_per_second: float  # of the whole process, best epoch since then


@contextmanager
def chosen_convolutions(algorithms: int = 10) -> Iterator[None]:
    """Let cuDNN measure which of so many algorithms is fastest for each shape of convolution; 0: of all it has."""
    cudnn = torch.backends.cudnn
    before = cudnn.benchmark, cudnn.benchmark_limit
    cudnn.benchmark, cudnn.benchmark_limit = True, algorithms
    try:
        yield
    finally:
        cudnn.benchmark, cudnn.benchmark_limit = before


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
        network = build_learner(recipe, job.classes, job.seed)
        network.to(device=device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        pad_inputs(network, runtime.pad_inputs)
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

    def open(self, resume: bool) -> int:
        """Make the folder ready and return the epochs already done."""
        folder = self.job.folder
        if self.processes.first:
            folder.mkdir(parents=True, exist_ok=True)
        if not resume and (folder / run.CHECKPOINT).exists():
            raise ValueError(f"{folder} holds a checkpoint already: resume it, or choose another folder")
        done = run.load_checkpoint(folder, self.step, self.settings) if resume else 0
        if self.processes.first:
            run.write_json(folder / run.SETTINGS, self.settings.to_dict())
            self.csv = logs.CsvLog(folder / run.LOG, done)
            self.board = logs.TensorBoardLog(folder / run.BOARD, done) if self.runtime.tensorboard else None
        return done

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        if self.stream is None:
            yield
        else:
            with torch.cuda.stream(self.stream):
                yield

    def accuracy(self, rows: NDArray[np.int64], labels: NDArray[np.int64], *, bf16: bool) -> float:
        return accuracy(
            self.step.network,
            self.images,
            rows,
            labels,
            mean=self.recipe.mean,
            std=self.recipe.std,
            classes=self.job.base_classes,
            device=self.step.device,
            bf16=bf16,
        )

    def end_epoch(self, epoch: int, seconds: float, rate: float) -> dict[str, Any]:
        """Log the epoch, validate and save where due; returns the row."""
        recipe, last = self.recipe, epoch + 1 == self.recipe.epochs
        self.processes.share_statistics(self.step.network)
        steps = self.step.steps_per_epoch
        loss, correct = self.processes.sums(*self.step.read_counters())
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
            bf16 = self.step.device.type == "cuda"
            row["validation"] = self.accuracy(self.job.validation_rows, self.job.validation_labels, bf16=bf16)
        for log in (self.csv, self.board):
            if log is not None:
                log.write(row)
        every = self.runtime.checkpoint_every
        if self.processes.first and every and ((epoch + 1) % every == 0 or last):
            run.save_checkpoint(self.job.folder, self.step, self.settings, epoch + 1)
        return row

    def finish(self, seconds: float, rate: float) -> Outcome:
        """Put averaged weights in place, measure both accuracies in full precision, and save the network."""
        self.step.network.load_state_dict(self.step.final_tensors())
        validation = self.accuracy(self.job.validation_rows, self.job.validation_labels, bf16=False)
        test = self.accuracy(self.job.test_rows, self.job.test_labels, bf16=False)
        seconds = seconds if self.csv is None else self.csv.seconds  # those before a resume too
        outcome = Outcome(self.job, self.step, validation, test, seconds, rate)
        if self.processes.first:
            run.save_weights(self.job.folder, self.step, self.settings)
            results = {
                "validation": None if np.isnan(validation) else validation,
                "test": None if np.isnan(test) else test,
                "seconds": seconds,
                "images_per_second": rate,
                "execution": self.step.execution,
            }
            run.write_json(self.job.folder / run.SETTINGS, {**self.settings.to_dict(), "results": results})
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

    Args:
        images: uint8 (n, h, w, 3); the jobs' rows index them.
        jobs: what each network learns. All must have the same number of training images, so that epochs keep step.
        resume: go on from each folder's checkpoint; a folder without one starts anew.
        about: what else to write into run.json (commit, command).
    """
    runtime = runtime or Runtime()
    counts = {len(job.train_rows) for job in jobs}
    if len(counts) != 1:
        raise ValueError(f"jobs trained together need equal numbers of training images, got {sorted(counts)}")
    with ExitStack() as stack:
        processes = stack.enter_context(Processes.start(runtime.device))
        stack.enter_context(chosen_convolutions(runtime.algorithms))
        store = place_images(images, runtime.images, processes.device)
        about = {"torch": torch.__version__, "device": processes.device_name, **(about or {})}
        trainees = [_Trainee(job, recipe, images, store, processes, runtime, about) for job in jobs]
        done = [trainee.open(resume) for trainee in trainees]
        if len(set(done)) != 1:
            raise ValueError(f"jobs trained together must have done equally many epochs, got {done}")
        for trainee in trainees:
            execution = processes.execution(runtime.execution)
            trainee.step.prepare(execution, runtime.compile_mode, compile_loss=runtime.compile_loss)
        return _train(trainees, recipe, done[0], show=runtime.progress and processes.first)


def _train(trainees: list[_Trainee], recipe: Recipe, done: int, *, show: bool) -> list[Outcome]:
    steps = trainees[0].step.steps_per_epoch
    device = trainees[0].step.device
    start, best = time.perf_counter(), 0.0
    with logs.Bar(recipe.epochs * steps, done * steps, show=show) as bar:
        for epoch in range(done, recipe.epochs):
            began = time.perf_counter()
            _run_epoch(trainees, epoch, bar)
            _wait(device)
            seconds = time.perf_counter() - began
            rate = len(trainees) * steps * recipe.batch_size / seconds
            best = max(best, rate)
            rows = [trainee.end_epoch(epoch, seconds, rate) for trainee in trainees]
            bar.epoch(rows[0], recipe.epochs, last=epoch + 1 == recipe.epochs)
    total = time.perf_counter() - start
    return [trainee.finish(total, best) for trainee in trainees]


def _run_epoch(trainees: list[_Trainee], epoch: int, bar: logs.Bar) -> None:
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
            bar.advance(_QUEUED_STEPS)
            if running[-1][0].stream is not None:
                for mark in marks:
                    mark.synchronize()
                marks = [stream.record_event() for t, _ in running if (stream := t.stream) is not None]
    bar.advance(trainees[0].step.steps_per_epoch % _QUEUED_STEPS)
    for trainee, steps in running:
        with trainee.on_stream():
            for _ in steps:  # lets a streaming source end its thread
                raise RuntimeError("an epoch had more steps than it should")


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
