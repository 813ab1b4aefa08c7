"""Steady-state training speed, recipe `paper`, random images: one model, and several at once in one process.

    PYTHONPATH=src python3 benchmarks/train.py --models 1 2 3 --check --kernels

Measured on 2026-11-18, one run, one NVIDIA H200, torch 2.11.0+cu130, batch 64, the whole step replayed as a CUDA graph,
at d5e8762: 9,904 images/s with one model. `strong` at 96 pixels, batches of 128 and Muon: 7,383.

Measured on 2026-11-20 on 2 CPU cores that others used, in processor time, `--device cpu --models 1 --steps 1 --images
64 --execution eager`: 3.5 images a processor second, 236 processor hours for the base session of a split; `--backbone
resnet18-he`: 54, 15 hours.

What limits it is power: with three models at once the GPU draws 690 of its 700 W and its clock is down from 1,980 to
1,680 MHz. An image of 24.4 GFLOP at 790 TFLOP/s and 700 W would take 22 mJ; it took 63 (11,060 images/s, 2026-11-15,
three processes). Convolutions are two thirds of a step, at 420 TFLOP/s. Kernels of our own for what lies between them
brought 1.18 times the images (11,734) for 826 lines, and are no more. Tried without gain: inputs padded to 8 channels
together with every algorithm cuDNN has. A fourth model at once adds nothing, and three bring so little that `train`
takes networks one after the other.

Correctness: `--check` compares weights with those of plain execution. Training at this rate amplifies rounding, so
weights nudged by one part in a million stand beside. What is left after the first step are probably ties: in black
padding activations are equal, and max-pooling sends the gradient to another of them (on a CPU in fp32 one step of a
tiny network differs by up to 1.2 % in a layer, by 2e-5 with padding 0; 2026-11-15).

A step is everything a training step does: gather, augment, forward, backward, update, count.
"""

import argparse
import dataclasses
import re
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from subspan.train.parts.device import Processes, find_device
from subspan.train.parts.network import build_network
from subspan.train.parts.step import TrainStep
from subspan.train.recipe import Recipe, find_recipe, member_recipe
from subspan.train.run import Job
from subspan.train.trainer import Runtime, chosen_convolutions

CLASSES, IMAGES = 60, 30_000
BF16_RATE = 790e12  # measured on the H200 for a large matrix product
KINDS = {  # first match wins
    "convolution and matrix product": r"conv|xmma|cutlass|gemm|nvjet|sm80_|sm90_|wgrad|dgrad|implicit|cudnn",
    "fused elementwise and reductions": r"triton",
    "SGD": r"multi_tensor|fused_sgd",
}


def flops_per_image(recipe: Recipe) -> float:
    """Floating-point operations of forward and backward pass (twice the forward) of one image."""
    backbone = build_network(recipe, CLASSES, 0).backbone.to("meta").eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        backbone(torch.zeros(1, 3, recipe.crop_size, recipe.crop_size, device="meta"))
    return 3.0 * counter.get_total_flops()


def make_step(recipe: Recipe, store: torch.Tensor, seed: int, runtime: Runtime, nudge: float = 0.0) -> TrainStep:
    """A prepared step on random labels; ``nudge`` changes the weights it starts from by that part of themselves."""
    device = store.device
    network = build_network(recipe, CLASSES, seed)
    if nudge:
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in network.parameters():
                p.mul_(1 + nudge * torch.randn(p.shape, generator=generator))
    network.to(device=device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    rows, labels = np.arange(len(store)), np.random.default_rng(seed).integers(0, CLASSES, len(store))
    none = rows[:0], labels[:0]
    job = Job("random", Path(), seed, CLASSES, CLASSES, (rows, labels), none, none)
    step = TrainStep(recipe, network, job, store, Processes(device))
    step.prepare(runtime.execution)
    return step


def run_steps(steps: list[TrainStep], streams: list[torch.cuda.Stream | None], count: int) -> float:
    """Seconds for ``count`` steps of every model, the models taking turns on their streams; on a CPU, of processors."""
    device = steps[0].device
    clock = time.perf_counter if device.type == "cuda" else time.process_time
    epochs = [step.epoch(0) for step in steps]
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = clock()
    for i in range(count):
        for epoch, stream in zip(epochs, streams, strict=True):
            with torch.cuda.stream(stream):
                next(epoch)
        if device.type == "cuda" and i % 64 == 63:
            torch.cuda.synchronize(device)  # once per 64 steps, as often as the trainer waits
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - start


def kernel_times(step: TrainStep) -> dict[str, tuple[float, float]]:
    """Milliseconds and launches per step of every kernel, from the profiler over ten steps."""
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run_steps([step], [None], 10)
    totals: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for event in profiler.events() or []:
        if event.device_type == torch.autograd.DeviceType.CUDA:
            spent, count = totals[event.name]
            totals[event.name] = spent + event.time_range.elapsed_us() / 1e4, count + 0.1
    return dict(totals)


def kernel_tables(times: dict[str, tuple[float, float]]) -> list[Table]:
    """Time of a step by kind of kernel, and its longest kernels."""
    kinds: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for name, (spent, count) in times.items():
        kind = next((k for k, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE)), "other")
        kinds[kind] = kinds[kind][0] + spent, kinds[kind][1] + count
    tables = []
    for title, rows in (("kinds of kernels", kinds), ("longest kernels", times)):
        table = Table("name", "ms per step", "launches", title=f"one model, {title}")
        for name, (spent, count) in sorted(rows.items(), key=lambda pair: -pair[1][0])[:16]:
            table.add_row(name[:80], f"{spent:.3f}", f"{count:.0f}")
        tables.append(table)
    return tables


def agreement(recipe: Recipe, store: torch.Tensor, runtime: Runtime, counts: tuple[int, ...] = (1, 10)) -> Table:
    """How far the weights after some steps lie from those of plain execution, relative to how far they moved.

    Beside it plain execution from weights changed by one part in a million, which shows how much of the distance any
    difference in rounding would grow to. A wrong gradient shows after the first step already.
    """
    kinds = {"eager": 0.0, "eager, nudged": 1e-6, runtime.execution: 0.0}
    start = torch.cat([p.detach().flatten() for p in build_network(recipe, CLASSES, 0).parameters()])
    ends: dict[str, list[torch.Tensor]] = {}
    losses: dict[str, list[float]] = {}
    for kind, nudge in kinds.items():
        how = runtime if kind == runtime.execution else dataclasses.replace(runtime, execution="eager")
        step = make_step(recipe, store, 0, how, nudge)
        ends[kind], losses[kind], done = [], [], 0
        for count in counts:
            run_steps([step], [None], count - done)
            losses[kind].append(step.read_counters()[0] / (count - done))
            ends[kind].append(torch.cat([p.detach().flatten().cpu() for p in step.network.parameters()]))
            done = count
    title = f"weights apart from eager ones, of their way, {recipe.precision}"
    table = Table("execution", *(f"{count} steps" for count in counts), *(f"loss to {c}" for c in counts), title=title)
    for kind in kinds:
        apart = [
            float((mine - eager).norm() / (eager - start).norm())
            for mine, eager in zip(ends[kind], ends["eager"], strict=True)
        ]
        table.add_row(kind, *(f"{share:.2%}" for share in apart), *(f"{loss:.4f}" for loss in losses[kind]))
    return table


def measure(
    recipe: Recipe, store: torch.Tensor, runtime: Runtime, steps: list[TrainStep], count: int, timed: int
) -> float:
    """Images per second of ``count`` models at once; ``steps`` holds those already prepared and grows to ``count``."""
    while len(steps) < count:
        steps.append(make_step(recipe, store, len(steps), runtime))
    streams = [torch.cuda.Stream(store.device) if store.device.type == "cuda" else None for _ in steps]
    timed = min(timed, steps[0].steps_per_epoch)
    run_steps(steps, streams, min(50, timed))
    return count * timed * recipe.batch_size / min(run_steps(steps, streams, timed) for _ in range(2))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="*", default=[1, 2, 3], help="how many at once; none: skip")
    parser.add_argument("--steps", type=int, default=400, help="timed steps per model")
    parser.add_argument("--recipe", default="paper")
    parser.add_argument("--backbone", default="", help="another one than the recipe's")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--precision", default="auto", help="auto, bf16 or fp32")
    parser.add_argument("--execution", default="auto", help="graph, compiled or eager")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--width", type=float, default=1.0)
    parser.add_argument("--check", action="store_true", help="also compare a few steps with plain execution")
    parser.add_argument("--kernels", action="store_true", help="also show where the time of a step goes")
    given = parser.parse_args()
    device = find_device(given.device)
    recipe = member_recipe(find_recipe(given.recipe))
    recipe = dataclasses.replace(
        recipe,
        backbone=given.backbone or recipe.backbone,
        batch_size=given.batch,
        width=given.width,
        precision=given.precision,
        early_size=0,  # one size of images for all steps
    )
    runtime = Runtime(execution=given.execution)
    shape = (given.images, recipe.crop_size, recipe.crop_size, 3)
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    store = torch.from_numpy(pixels).to(device)
    work = flops_per_image(recipe)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    console = Console(width=110)
    table = Table(title=f"{name}, torch {torch.__version__}, recipe {recipe.name}, batch {given.batch}")
    for column in ("models", "execution", "images/s", "ms per step", "TFLOP/s", "of 790", "memory GB", "set-up s"):
        table.add_column(column, justify="right")
    steps: list[TrainStep] = []
    with chosen_convolutions():
        for count in sorted(given.models):
            began = time.perf_counter()
            while len(steps) < count:
                steps.append(make_step(recipe, store, len(steps), runtime))
            set_up = time.perf_counter() - began
            rate = measure(recipe, store, runtime, steps, count, given.steps)
            memory = torch.cuda.max_memory_allocated(device) / 1e9 if device.type == "cuda" else 0.0
            table.add_row(
                str(count),
                steps[0].execution,
                f"{rate:,.0f}",
                f"{1000 * count * given.batch / rate:.2f}",
                f"{rate * work / 1e12:.0f}",
                f"{rate * work / BF16_RATE:.0%}",
                f"{memory:.1f}",
                f"{set_up:.0f}",
            )
            hours = count * recipe.epochs * IMAGES / rate / 3600
            said = f"{count} at once: {rate:,.1f} images/s, set-up {set_up:.0f} s; {hours:,.1f} hours for base sessions"
            console.print(said, highlight=False)
        if steps:
            console.print(table)
        if given.check:
            console.print(agreement(recipe, store, runtime))
        if given.kernels and device.type == "cuda" and steps:
            for kernels in kernel_tables(kernel_times(steps[0])):
                console.print(kernels)


if __name__ == "__main__":
    main()
