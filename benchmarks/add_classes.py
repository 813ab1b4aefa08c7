"""Adding 5 classes x 5 shots, no memory: cost by the size of the model, and against refitting on all stored features.

Last measured 2026-11-15 with the features bundled then, 2 CPU cores (AMD EPYC virtual machine, 32 MB cache), nothing
else running, one thread, torch 2.13.0. Growth, processor seconds, least of 3 processes:

    classes       finetune (1000 steps)             prototype
        100       0.32 s            16 MB           0.002 s           12 MB
      1,000       0.46 s   1.4x     35 MB   2.1x    0.004 s   2.8x    22 MB   1.8x
     10,000       1.84 s   4.0x    239 MB   6.9x    0.029 s   6.7x   165 MB   7.5x
    100,000      18.8 s   10.2x  2,032 MB   8.5x    0.252 s   8.8x  1,487 MB   9.0x

    subspace at 100 classes: 0.43 s, 20 MB

From 10,000 to 100,000 classes finetune goes from 184 to 188 us a class, prototype from 2.9 to 2.5; memory per class
falls throughout. Before the solver kept its arrays from step to step, the new 10 MB arrays of each step were mapped and
faulted in again, and finetune grew 14.4x there.

Refit, processor seconds of one thread, measured 2026-11-19 on 2 CPU cores, others at work on them; `subspan` is
`calibrated:shrinkage=3,offset=0.02` here:

                 base s  session s    ratio
    subspan        0.64     0.0103       1x
    ridge          3.25     3.2296     312x
    logistic       3.05     0.3503      34x
    lda            1.68     1.7264     167x
    svm           13.57    14.5744   1,409x

Default, measured 2026-11-20 on cores that others kept busy (load 8 to 14), one thread, least of 3:

        100 session and first answer   wall    0.760 s   processor    0.420 s
        100 one photograph's answer    wall    0.001 s   processor    0.001 s
    100,000 session and first answer   wall    8.059 s   processor    4.045 s
    100,000 one photograph's answer    wall    0.063 s   processor    0.033 s

    python benchmarks/add_classes.py                    # all parts, a quarter of an hour
    python benchmarks/add_classes.py --part default     # the default method, at 100 and 100,000 classes
    python benchmarks/add_classes.py --part growth      # models of 100 to 100,000 classes
    python benchmarks/add_classes.py --part refit       # 100 classes x 50 examples, against scikit-learn

Growth: random rows as long as the bundled ones, d = 640; every size and method in a process of its own, whose peak
memory is the operating system's (ru_maxrss), less what Python and the libraries take. Gradient descent always takes its
1000 steps (tolerance=0), so that sizes compare; by default it stops earlier. `subspace` runs at 100 classes only: from
640 rows on they span all dimensions, its penalty does nothing and it says so. The control is nine copies of the rows
and nothing else: what the machine itself takes to hand out so much fresh memory.

Refit: made-up features of 1,280 dimensions, as of a packaged network; how accurate the ways are, `subspan compare` says
on real ones. Every way learns 100 classes x 50 examples, then five sessions of 5 classes x 5 examples; the least of the
five counts, the first answer after it included. A refit learns from all examples so far; the C of the logistic
regression is chosen once, before. Ratios are of the refit's seconds to those of `subspan`, which is the default.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from subspan.classifier import IncrementalClassifier
from subspan.engine import sessions
from subspan.engine.contract import Base, State
from subspan.experiments.compare.ways import kind_named
from subspan.features.feature_set import bundled
from subspan.learners.posterior import Posterior

WAYS, SHOTS, WIDTH = 5, 5, 640
SIZES = (100, 1_000, 10_000, 100_000)
CONTROL, COPIES = "(nine copies)", 9
RUNS = {"finetune:tolerance=0": SIZES, "prototype": SIZES, CONTROL: SIZES, "subspace:tolerance=0": SIZES[:1]}
CLASSES, EXAMPLES, REFIT_WIDTH = 100, 50, 1280
REFITS = ("subspan", "ridge", "logistic", "lda", "svm")
RULE = Posterior()
Array = NDArray[np.float32]


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    """What an action returns, and its processor seconds: on one thread the time of a machine that does nothing else."""
    began = time.process_time()
    return action(), time.process_time() - began


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure_one(classes: int, method: str, seed: int) -> dict[str, float]:
    """Seconds and peak memory of one session on a model of so many classes; for a process of its own."""
    features = bundled()
    rng = np.random.default_rng(seed)
    support = features.novel_support[:, 0]  # one copy of each image
    chosen = np.concatenate([np.flatnonzero(features.novel_support_labels == c)[:SHOTS] for c in range(WAYS)])
    length = np.linalg.norm(features.base_weight, axis=1).mean()
    imported = peak_megabytes()
    rows = rng.standard_normal((classes, WIDTH), dtype=np.float32)
    rows *= length / np.sqrt(WIDTH)
    if method == CONTROL:
        _, seconds = timed(lambda: [rows.copy() for _ in range(COPIES)])
        return {"seconds": seconds, "steps": 0, "peak": peak_megabytes() - imported}
    names = [f"class {i}" for i in range(classes)]
    model = IncrementalClassifier.from_weights(rows, names, means=rows, method=method)
    y = np.repeat([f"novel {i}" for i in range(WAYS)], SHOTS)
    _, seconds = timed(lambda: model.add_classes(support[chosen], y))
    return {"seconds": seconds, "steps": model.sessions_[-1].steps, "peak": peak_megabytes() - imported}


def in_a_process(classes: int, method: str, seed: int) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), "--one", str(classes), method, str(seed)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def measure_growth(repeats: int) -> None:
    """How time and memory grow with the number of classes; the least over processes."""
    print(f"Growth: {WAYS} classes x {SHOTS} shots, d = {WIDTH}, least of {repeats} processes")
    print(f"{'method':22} {'classes':>8} {'steps':>6} {'seconds':>9} {'us/class':>9} {'growth':>7}", end="")
    print(f" {'peak MB':>9} {'KB/class':>9} {'growth':>7}")
    for method, sizes in RUNS.items():
        before = {"seconds": 0.0, "peak": 0.0}
        for classes in sizes:
            runs = [in_a_process(classes, method, seed) for seed in range(repeats)]
            now = {key: min(run[key] for run in runs) for key in runs[0]}
            growth = {key: f"{now[key] / value:.1f}x" if value else "" for key, value in before.items()}
            seconds, peak = now["seconds"], now["peak"]
            print(
                f"{method:22} {classes:8,} {now['steps']:6.0f} {seconds:9.3f} {seconds / classes * 1e6:9.0f} "
                f"{growth['seconds']:>7} {peak:9.0f} {peak / classes * 1024:9.1f} {growth['peak']:>7}",
                flush=True,
            )
            before = {"seconds": seconds, "peak": peak}


def measure_refit(repeats: int) -> None:
    """Adding classes against refitting on everything, on the same features."""
    rng = np.random.default_rng(0)
    means = np.abs(rng.standard_normal((CLASSES + repeats * WAYS, REFIT_WIDTH), dtype=np.float32))

    def examples(classes: range, each: int) -> tuple[Array, NDArray[np.int64]]:
        labels = np.repeat(np.array(classes), each)
        return np.abs(means[labels] + rng.standard_normal((len(labels), REFIT_WIDTH), dtype=np.float32)), labels

    base = examples(range(CLASSES), EXAMPLES)
    later = [examples(range(at, at + WAYS), SHOTS) for at in range(CLASSES, len(means), WAYS)]
    print(f"\nRefit: {CLASSES} classes x {EXAMPLES} examples, then {WAYS} classes x {SHOTS} shots, d = {REFIT_WIDTH}")
    print(f"{'':12} {'base s':>9} {'session s':>10} {'ratio':>8}   least of {repeats} sessions")
    ours = 0.0
    for name in REFITS:
        way = kind_named(name).make()
        _, before = timed(lambda way=way: way.learn(*base))
        found = []
        for X, y in later:
            found.append(timed(lambda way=way, X=X, y=y: (way.learn(X, y), way.predict(X[:1])))[1])
        ours = ours or min(found)
        print(f"{name:12} {before:9.2f} {min(found):10.4f} {min(found) / ours:7.0f}x", flush=True)


def measure_default(repeats: int) -> None:
    """Sessions of the default method on 100 and 100,000 base classes, one after the other, first answer included."""
    rng = np.random.default_rng(0)
    print(f"\nDefault: {WAYS} classes x {SHOTS} shots, d = {REFIT_WIDTH}, least of {repeats} sessions")
    for classes in (CLASSES, 100_000):
        few = np.repeat(np.arange(CLASSES), EXAMPLES)
        examples = np.abs(rng.standard_normal((len(few), REFIT_WIDTH), dtype=np.float32))
        means = np.abs(rng.standard_normal((classes, REFIT_WIDTH), dtype=np.float32))
        state = sessions.start(RULE, Base(means[:CLASSES], means[:CLASSES], examples=examples, labels=few))
        if classes > CLASSES:  # the scatter of some classes serves for all
            rows = means / np.linalg.norm(means, axis=1, keepdims=True)
            grown = {**state.arrays, "rows": rows.astype(np.float64), "counts": np.full(classes, float(EXAMPLES))}
            state = State(Base(means, means), grown)
        added, answers = [], []
        for _ in range(repeats + 1):  # the first one makes room for more rows
            X = np.abs(rng.standard_normal((WAYS * SHOTS, REFIT_WIDTH), dtype=np.float32))
            places = len(state.rows) + np.arange(WAYS)
            session = sessions.session_of(X, np.repeat(places, SHOTS), places.tolist())
            began = time.perf_counter(), time.process_time()
            state = sessions.learn(RULE, state, session)
            sessions.scores(RULE, state, X[:1])
            added.append((time.perf_counter() - began[0], time.process_time() - began[1]))
            began = time.perf_counter(), time.process_time()
            sessions.scores(RULE, state, X[1:2])
            answers.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        for what, found in (("session and first answer", added), ("one photograph's answer", answers)):
            wall, processor = (min(one[kind] for one in found) for kind in (0, 1))
            print(f"{classes:8,} {what:26} wall {wall:8.3f} s   processor {processor:8.3f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=("growth", "refit", "default"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--one", nargs=3, metavar=("CLASSES", "METHOD", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        classes, method, seed = arguments.one
        print(json.dumps(measure_one(int(classes), method, int(seed))))
        return
    if arguments.part in ("growth", None):
        measure_growth(arguments.repeats)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        if arguments.part in ("refit", None):
            measure_refit(arguments.repeats)
        if arguments.part in ("default", None):
            measure_default(arguments.repeats)


if __name__ == "__main__":
    main()
