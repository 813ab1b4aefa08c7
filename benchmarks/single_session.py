"""A cell of the single-session table against the naive loop and against the authors' way, in one run.

One cell: 2000 episodes of 5 ways x 5 shots x 5 copies beside 64 base classes (n = 125, d = 640, 69 rows), the paper's
SGD with its stop rule and at most 1000 steps, 25 + 25 queries of each episode scored; features cached, episodes drawn
before. The naive loop is torch.optim.SGD with autograd on full weights and cached features (tests/engine/naive.py). The
authors' way computes the network at every step; `authors_loop.py` times it from a checkout of their repository.

Measured on 2026-11-15, one run each, episodes of `features/paper-ravi.npz`, nothing else on the machine. One
NVIDIA H200, torch 2.11.0+cu130; the authors' loop took 12.4 ms a step in the same run (13.7 in an earlier one), so 6.9
hours for 2000 episodes of 1000 steps:

    method      steps   cell s   ms/episode   x naive   x authors
    finetune      712     1.21        0.605     1,712      22,534
    subspace     1000     1.49        0.745     2,368      18,326
    semantic      373     0.75        0.375     1,553      36,403

The whole half, 14 cells without `calibrated`, took 7.0 s. Since then start rows are drawn, and the span of base rows is
found, once for all cells.

On 2 CPU cores, torch 2.13.0, features of Ravi's 16 development classes (`--features FILE --repeats 1 --naive 3`):

    method      steps   cell s   ms/episode   x naive
    finetune      754     77.4         38.7        26
    subspace     1000    110.3         55.1        16
    semantic      357     35.9         17.9        14

    python benchmarks/single_session.py                                      # all CPU cores
    python benchmarks/single_session.py --device cuda --half --authors CHECKOUT
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
import torch

from authors_loop import seconds_per_step
from episodes import as_problem, naive_session, timed
from subspan.experiments.config import Config
from subspan.experiments.episodes import Episodes
from subspan.experiments.fan_out import Placement
from subspan.experiments.named_features import embeddings_of, find_embeddings
from subspan.experiments.runs import Cell, run_cells
from subspan.experiments.single_session import SingleSession, Stage
from subspan.features.feature_set import FeatureSet, bundled
from subspan.learners.parts.regularizer import Regularizer
from subspan.learners.registry import create_method

FEATURES = Path(__file__).parent / "features" / "paper-ravi.npz"
METHODS = ("finetune", "subspace", "semantic")
STEPS = 1000  # of the authors' loop for an episode: where the subspace regularizer stops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--features", type=Path, default=FEATURES, help="a single-session feature file")
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--repeats", type=int, default=2, help="timed runs of a cell, of which the best counts")
    parser.add_argument("--naive", type=int, default=2, help="episodes that the naive loop runs")
    parser.add_argument("--half", action="store_true", help="the whole miniImageNet half too: 7 methods x 2 shots")
    parser.add_argument("--authors", type=Path, help="checkout of feyzaakyurek/subspace-reg")
    arguments = parser.parse_args()
    place = Placement(device=arguments.device)
    features = FeatureSet.load(arguments.features) if arguments.features.is_file() else bundled()
    if not arguments.features.is_file():
        print(f"There is no {arguments.features.name}: the bundled multi-session features stand in.")
    protocol = SingleSession(count=arguments.episodes)
    drawn, seconds = timed(lambda: protocol.draw(features), torch.device(place.device))
    cores = f"{os.cpu_count()} cores" if place.device == "cpu" else torch.cuda.get_device_name()
    print(f"{len(drawn)} episodes, drawn in {seconds:.2f} s; {place.device} ({cores}), torch {torch.__version__}")
    authors = None if arguments.authors is None else time_authors(arguments.authors, place.device)
    print(
        f"{'method':10} {'steps':>6} {'cell s':>8} {'ms/episode':>11} {'naive s':>9} {'x naive':>9} {'x authors':>10}"
    )
    vectors = find_embeddings(features, None)
    embeddings = {} if vectors is None else {"words": vectors}
    for name in arguments.methods:
        method = create_method(name)
        assert isinstance(method, Regularizer)
        cell = Cell(method, protocol.shots, "words" if "embeddings" in method.needs else None)
        runs = [time_cell(protocol, features, cell, place, embeddings, drawn) for _ in range(arguments.repeats)]
        seconds, steps = min(runs)
        per_episode = seconds / len(drawn)
        naive = time_naive(features, cell, embeddings, drawn.part(0, arguments.naive), place.device)
        of_authors = "" if authors is None else f"{STEPS * authors / per_episode:10.0f}"
        print(
            f"{name:10} {steps:6.0f} {seconds:8.2f} {1e3 * per_episode:11.3f} {naive:9.2f} "
            f"{naive / per_episode:9.0f} {of_authors}",
            flush=True,
        )
    if arguments.half:
        seconds = time_half(protocol, features, place, drawn)
        print(f"the miniImageNet half, 7 methods x 2 shots: {seconds:.1f} s")


def time_cell(
    protocol: SingleSession,
    features: FeatureSet,
    cell: Cell,
    place: Placement,
    embeddings: dict,
    drawn: Episodes,
) -> tuple[float, float]:
    """Seconds for all episodes of a cell, scoring included, and its mean number of steps."""
    began = time.perf_counter()
    (result,) = run_cells(protocol, features, [cell], place, embeddings=embeddings, episodes=drawn)
    return time.perf_counter() - began, float(result.steps.mean())


def time_half(protocol: SingleSession, features: FeatureSet, place: Placement, drawn: Episodes) -> float:
    """Seconds for all cells of the table's miniImageNet half, with the settings that it is printed from."""
    settings = Config.load("single-session-mini", "single-session").settings
    cells = [Cell(one.create(), one.shots or protocol.shots, one.embeddings) for one in settings]
    embeddings = embeddings_of([features], settings)[0]
    began = time.perf_counter()
    run_cells(protocol, features, cells, place, embeddings=embeddings, episodes=drawn)
    return time.perf_counter() - began


def time_naive(features: FeatureSet, cell: Cell, embeddings: dict, drawn: Episodes, device: str) -> float:
    """Seconds of the naive loop for an episode, mean over a few; the same start, penalties and stop rule."""
    from naive import naive_sgd  # `episodes` puts its folder on the path

    assert isinstance(cell.method, Regularizer)
    method = cell.method
    vectors = embeddings.get(cell.embeddings or "")
    stage = Stage(features, vectors, use_bias=method.uses_bias, device=device, dtype="float32")
    base = stage.tensors.base
    problem = as_problem(method, base, stage.prepare(drawn))
    sessions = [naive_session(problem, method, base, number) for number in range(len(drawn))]
    return float(np.mean([timed(lambda s=s: naive_sgd(s), torch.device(device))[1] for s in sessions]))


def time_authors(checkout: Path, device: str) -> float:
    """Seconds of a step of the authors' loop, ResNet-12."""
    step = seconds_per_step(checkout, model="resnet12", device=device, queries=25, short=5, long=45)
    hours = 2000 * STEPS * step / 3600
    print(
        f"authors' loop: {1e3 * step:.1f} ms a step (ResNet-12, 125 support images and 25 queries at every step), so "
        f"{STEPS * step:.1f} s for an episode of {STEPS} steps and {hours:.1f} h for 2000"
    )
    return step


if __name__ == "__main__":
    main()
