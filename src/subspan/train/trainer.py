"""Base sessions: one network per job, one after the other, with logs, checkpoints and resumption."""

import dataclasses
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from subspan.backbones.network import Network
from subspan.progress import Progress
from subspan.train import run
from subspan.train.parts.device import Execution, Processes
from subspan.train.parts.network import Images, build_network, inputs, join_members
from subspan.train.parts.step import TrainStep
from subspan.train.recipe import Recipe, member_recipe
from subspan.train.run import Job
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
    all epochs, also those before a resume; ``images_per_second`` of the best epoch; the ``execution``,
    None where the run had ended before; and of a joined network, the results of its ``members``.
    """

    job: Job
    network: Network
    results: dict[str, Any]
    members: tuple["Outcome", ...] = ()


@torch.no_grad()
def accuracies(
    network: Network, images: Images, job: Job, recipe: Recipe, parts: Sequence[str] = ("validation", "test")
) -> dict[str, float | None]:
    """Percent of a job's images told right among its base classes, by part, in evaluation mode; None of no images."""
    found: dict[str, float | None] = {}
    network.eval()
    for part in parts:
        rows, labels = getattr(job, part)
        shown = inputs(images, rows, recipe, network.head.weight.device)
        answers = [network(some)[:, : job.base_classes].argmax(1).cpu().numpy() for some in shown]
        found[part] = 100 * float((np.concatenate(answers) == labels).sum()) / len(rows) if answers else None
    return found


@contextmanager
def chosen_convolutions() -> Iterator[None]:
    """Let cuDNN measure which algorithm is fastest for each shape of convolution."""
    cudnn = torch.backends.cudnn
    before, cudnn.benchmark = cudnn.benchmark, True
    try:
        yield
    finally:
        cudnn.benchmark = before


def train(
    images: NDArray[np.uint8],
    jobs: Sequence[Job],
    recipe: Recipe,
    runtime: Runtime | None = None,
    *,
    resume: bool = False,
    about: dict[str, Any] | None = None,
) -> list[Outcome]:
    """Train one network per job, on rows of images (n, h, w, 3), which stay on the device.

    Where the recipe has several members, each job has as many networks, which are joined in the end. With ``resume``,
    each network goes on from the checkpoint in its folder: one without any starts anew, one at its end is left as it
    is. ``about`` is recorded. Whatever cannot be trained or resumed is refused before anything is written.
    """
    runtime = runtime or Runtime()
    recipe.check_size(images.shape[1])
    processes = Processes.start(runtime.device)
    about = {"torch": torch.__version__, "device": processes.device_name, **(about or {})}
    asked: list[list[tuple[Job, run.RunSettings]]] = []
    for job in jobs:
        run.check_folders(job, recipe, resume=resume)
        each = enumerate(job.members(recipe))
        asked.append([(member, run.RunSettings.of(member, member_recipe(recipe, i), about)) for i, member in each])
        for member, settings in asked[-1]:
            run.find_checkpoint(member.folder, settings)
    with chosen_convolutions():
        store = torch.from_numpy(np.ascontiguousarray(images)).to(processes.device)
        outcomes = []
        for job, networks in zip(jobs, asked, strict=True):
            members = [_train(member, settings, store, processes, runtime) for member, settings in networks]
            several = recipe.members > 1
            outcomes.append(_join(job, recipe, members, store, processes, about) if several else members[0])
        return outcomes


def _train(job: Job, settings: run.RunSettings, store: Tensor, processes: Processes, runtime: Runtime) -> Outcome:
    """One network to its end, measured in full precision and saved; a run that had ended before is left as it is."""
    recipe, folder = settings.recipe, job.folder
    network = build_network(recipe, job.classes, job.seed)
    network.to(device=processes.device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    step = TrainStep(recipe, network, job, store, processes)
    state, done = run.find_checkpoint(folder, settings)
    if done:
        step.restore({name: tensor.to(step.device) for name, tensor in state.items()})
    if done == recipe.epochs and (folder / run.WEIGHTS).exists():
        return Outcome(job, network, run.record_of(folder)["results"])
    rows: list[dict[str, Any]] = []
    if processes.first:
        run.write_settings(folder, settings)
        rows = run.read_log(folder, done)
    if done < recipe.epochs:
        step.prepare(runtime.execution)
    with Progress(show=runtime.progress and processes.first) as bar:
        steps = step.steps_per_epoch
        task = bar.add_task("training", total=recipe.epochs * steps, completed=done * steps)
        for epoch in range(done, recipe.epochs):
            began = time.perf_counter()
            for _ in _in_queues(step, epoch):
                bar.advance(task)
            rows.append(_row(step, job, processes, epoch, time.perf_counter() - began))
            last = epoch + 1 == recipe.epochs
            if _due(epoch, runtime.validate_every) and not last:
                rows[-1] |= accuracies(network, store, job, recipe, ["validation"])
            if processes.first:
                run.write_log(folder, rows)
                if runtime.checkpoint_every and (_due(epoch, runtime.checkpoint_every) or last):
                    run.save_checkpoint(folder, step.tensors(), settings, epoch + 1)
            bar.update(task, description=_told(rows[-1], recipe.epochs))
    results = {
        **accuracies(network, store, job, recipe),
        "seconds": sum(float(row["seconds"]) for row in rows),
        "images_per_second": max((float(row["images_per_second"]) for row in rows), default=0.0),
        "execution": step.execution if done < recipe.epochs else None,
    }
    if processes.first:
        run.save_trained(folder, network, settings, results)
    return Outcome(job, network, results)


def _due(epoch: int, every: int) -> bool:
    return every > 0 and (epoch + 1) % every == 0


def _in_queues(step: TrainStep, epoch: int) -> Iterator[None]:
    """The steps of one epoch; the host never runs far ahead of a GPU, and waits for it in the end."""
    mark = None
    for number, _ in enumerate(step.epoch(epoch), 1):
        if step.device.type == "cuda" and number % _QUEUED_STEPS == 0:
            if mark is not None:
                mark.synchronize()
            mark = torch.cuda.current_stream(step.device).record_event()
        yield
    if step.device.type == "cuda":
        torch.cuda.synchronize(step.device)


def _row(step: TrainStep, job: Job, processes: Processes, epoch: int, seconds: float) -> dict[str, Any]:
    """What the log says of an epoch, with batch statistics shared among the processes."""
    processes.share_statistics(step.network)
    loss, correct = processes.sums(*step.read_counters())
    if not np.isfinite(loss):
        raise ValueError(f"the loss of {job.folder} is {loss} in epoch {epoch + 1}; try a smaller --learning-rate")
    images = step.steps_per_epoch * step.recipe.batch_size
    return {
        "epoch": epoch,
        "rate": float(step.rate),
        "loss": loss / (step.steps_per_epoch * processes.count),
        "accuracy": 100 * correct / images,
        "validation": None,
        "images_per_second": images / seconds,
        "seconds": seconds,
    }


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
    seconds = sum(each["seconds"] for each in own)
    results = {**own[-1], **accuracies(network, store, job, recipe), "seconds": seconds, "members": own}
    if processes.first:
        run.save_trained(job.folder, network, run.RunSettings.of(job, recipe, about), results)
    return Outcome(job, network, results, tuple(members))


def _told(row: dict[str, Any], epochs: int) -> str:
    """The numbers of an epoch, for the bar."""
    text = f"epoch {row['epoch'] + 1}/{epochs}, loss {row['loss']:.3f}, accuracy {row['accuracy']:.1f} %, "
    text += f"{row['images_per_second']:,.0f} images/s"
    return text if row["validation"] is None else f"{text}, validation {row['validation']:.2f} %"
