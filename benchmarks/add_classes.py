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

Refit, mean of 3 runs earlier that day on a busy machine, by wall clock (the script now takes processor time);
accuracy in percent on all, base and novel classes:

    add_classes, subspace      0.42 s      86x faster    80.5   82.9   31.2
    add_classes, finetune      0.23 s     159x           70.4   71.8   42.4
    add_classes, prototype     0.001 s  25,000x          65.6   67.0   37.9
    refit, plain              35.9 s                     86.1   90.4    0.1
    refit, balanced           38.5 s                     86.1   90.2    2.8
    before (fit, 39.2 s)                                 86.1   90.5    0.0

Adding gives novel classes at the price of base ones; a plain refit all but ignores five examples among 500. The numbers
hang on the simulated spread (SPREAD, chosen by eye among 1, 1.5, 2 and 2.5 so that neither half is trivial). With 1,
one run: subspace 94.7 / 94.9 / 91.0 at 45x, plain refit 95.2 / 99.9 / 0.6, balanced refit 98.2 / 99.9 / 63.4.

    python benchmarks/add_classes.py                    # both parts, ten minutes
    python benchmarks/add_classes.py --part growth      # models of 100 to 100,000 classes
    python benchmarks/add_classes.py --part refit       # 100 classes x 500 examples against scikit-learn

Growth: random rows as long as the bundled ones, d = 640; every size and method in a process of its own, whose peak
memory is the operating system's (ru_maxrss), less what Python and the libraries take. Gradient descent always takes its
1000 steps (tolerance=0), so that sizes compare; by default it stops earlier. `subspace` runs at 100 classes only: from
640 rows on they span all dimensions, its penalty does nothing and it says so. The control is nine copies of the rows
and nothing else: what the machine itself takes to hand out so much fresh memory.

Refit: simulated features, since the bundle holds no training images. Class means are Gaussian with mean and covariance
of the bundled class means, examples around them with the covariance within the bundled classes, base and novel apart.
Such features are easier than real ones (no outliers), so the spread within classes is doubled. The base session is
`IncrementalClassifier.fit`; a refit is the same logistic regression on all 50,025 examples, plain or with balanced
class weights. Test: 100 examples a class.
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
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from subspan.classifier import IncrementalClassifier
from subspan.features.feature_set import bundled

WAYS, SHOTS, WIDTH = 5, 5, 640
SIZES = (100, 1_000, 10_000, 100_000)
CONTROL, COPIES = "(nine copies)", 9
RUNS = {"finetune:tolerance=0": SIZES, "prototype": SIZES, CONTROL: SIZES, "subspace:tolerance=0": SIZES[:1]}
CLASSES, EXAMPLES, TEST = 100, 500, 100
SPREAD = 2.0  # factor on the spread within simulated classes
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


class Simulated:
    """Gaussian features with the first two moments of the bundled ones, for base or for novel classes."""

    def __init__(self, features: Array, labels: NDArray[np.int64], rng: np.random.Generator) -> None:
        means = np.stack([features[labels == c].mean(0) for c in range(labels.max() + 1)])
        self.center = means.mean(0)
        self.between = (means - self.center) / np.sqrt(len(means) - 1)  # a square root of the covariance of means
        self.within = SPREAD * (features - means[labels]) / np.sqrt(len(features) - len(means))
        self.rng = rng

    def classes(self, count: int) -> Array:
        """Means (count, d) of new classes."""
        return self.center + self._mix(self.between, count)

    def examples(self, means: Array, each: int) -> Array:
        """Examples (classes * each, d), class by class."""
        return np.repeat(means, each, axis=0) + self._mix(self.within, len(means) * each)

    def _mix(self, root: Array, count: int) -> Array:
        """Gaussian vectors (count, d) with the covariance root^T root."""
        return self.rng.standard_normal((count, len(root)), dtype=np.float32) @ root


def measure_refit(repeats: int) -> None:
    """Adding classes against refitting on everything, on the same features."""
    total = CLASSES * EXAMPLES + WAYS * SHOTS
    print(f"\nRefit: {CLASSES} classes x {EXAMPLES} examples, then {WAYS} classes x {SHOTS} shots, d = {WIDTH}", end="")
    print(f"; mean of {repeats} runs")
    print(f"{'':30} {'seconds':>9} {'ratio':>8} {'all':>6} {'base':>6} {'novel':>6}")
    rows: dict[str, list[tuple[float, ...]]] = {}
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        features = bundled()
        base = Simulated(features.base_test, features.base_test_labels, rng)
        novel = Simulated(features.novel_test, features.novel_test_labels, rng)
        base_means, novel_means = base.classes(CLASSES), novel.classes(WAYS)
        X, y = base.examples(base_means, EXAMPLES), np.repeat(np.arange(CLASSES), EXAMPLES)
        support = novel.examples(novel_means, SHOTS)
        support_y = np.repeat(np.arange(CLASSES, CLASSES + WAYS), SHOTS)
        queries = np.concatenate([base.examples(base_means, TEST), novel.examples(novel_means, TEST)])
        gold = np.repeat(np.arange(CLASSES + WAYS), TEST)

        def accuracies(model: Any, queries: Array = queries, gold: NDArray[np.int64] = gold) -> tuple[float, ...]:
            right = model.predict(queries) == gold
            is_base = gold < CLASSES
            return tuple(100 * float(part.mean()) for part in (right, right[is_base], right[~is_base]))

        fitted, seconds = timed(lambda X=X, y=y: IncrementalClassifier(method="finetune").fit(X, y))
        rows.setdefault("base session (fit)", []).append((seconds, *accuracies(fitted)))
        means = X.reshape(CLASSES, EXAMPLES, WIDTH).mean(1)
        for name in ("subspace", "finetune", "prototype"):
            model = IncrementalClassifier.from_weights(
                fitted.coef_, fitted.classes_, bias=fitted.intercept_, means=means, method=name
            )
            _, seconds = timed(lambda m=model, X=support, y=support_y: m.add_classes(X, y))
            rows.setdefault(f"add_classes, {name}", []).append((seconds, *accuracies(model)))
        everything = np.concatenate([X, support]), np.concatenate([y, support_y])
        decay = IncrementalClassifier().base_decay
        for weighting in (None, "balanced"):
            regression = LogisticRegression(C=1 / (decay * total), max_iter=1000, class_weight=weighting)
            _, seconds = timed(lambda r=regression, d=everything: r.fit(*d))
            rows.setdefault(f"refit, {weighting or 'plain'}", []).append((seconds, *accuracies(regression)))
    averages = {name: np.mean(values, axis=0) for name, values in rows.items()}
    reference = averages["refit, plain"][0]
    for name, (seconds, *percent) in averages.items():
        ratio = f"{reference / seconds:7.0f}x" if name.startswith("add") else ""
        print(f"{name:30} {seconds:9.3f} {ratio:>8} " + " ".join(f"{value:6.1f}" for value in percent), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", choices=("growth", "refit", "both"), default="both")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=3, metavar=("CLASSES", "METHOD", "SEED"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        classes, method, seed = arguments.one
        print(json.dumps(measure_one(int(classes), method, int(seed))))
        return
    if arguments.part != "refit":
        measure_growth(arguments.repeats)
    if arguments.part != "growth":
        torch.set_num_threads(1)
        with threadpool_limits(1):
            measure_refit(arguments.repeats)


if __name__ == "__main__":
    main()
