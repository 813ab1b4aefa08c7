"""Why QR fails in the subspace regularizer here: by SVD, by QR, and by QR with a random spare direction.

Base rows of a softmax with weight decay sum to nearly nothing, so QR keeps one direction that training hardly shaped.
The control puts a random direction of norm 0.003 in its place, in the rows themselves, and asks QR again: if rank were
what matters, it would fail as well. `spare` is the smallest singular value of the base rows as a share of the largest,
`cosine` that of its direction with the mean of the base training features. One draw of the support, no memory;
accuracy on all classes in percent, mean over the files with its 95 % interval at the last session, in which `-` is what
a paired comparison with SVD gives.

    nice python benchmarks/qr_control.py benchmarks/features/paper-random-* benchmarks/features/paper-fixed.npz
    nice python benchmarks/qr_control.py benchmarks/features/strong-* --config multi-session-strong
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from subspan.experiments.config import Config
from subspan.experiments.fan_out import Placement
from subspan.experiments.multi_session import MultiSession
from subspan.experiments.runs import Job, Split, run_jobs
from subspan.features.feature_set import FeatureSet
from subspan.paper.published import MULTI_SESSION

NORM, SEEDS = 0.003, 3
LEFT_OUT = ("-random-0", "-ravi")  # for development; of the other protocol


def replaced(features: FeatureSet, seed: int) -> FeatureSet:
    """The same file with a random direction of norm 0.003 for the smallest singular one of its base rows (C0, d)."""
    rows = np.asarray(features.base_weight, np.float64)
    left, singular, right = np.linalg.svd(rows, full_matrices=False)
    random = np.random.default_rng(seed).normal(size=rows.shape[1])
    random *= NORM / np.linalg.norm(random)
    changed = rows - np.outer(singular[-1] * left[:, -1], right[-1]) + np.outer(left[:, -1], random)
    return replace(features, base_weight=changed.astype(np.float32))


def spare(features: FeatureSet) -> tuple[float, float]:
    """Smallest singular value by the largest, and the cosine of its direction with the mean feature."""
    _, singular, right = np.linalg.svd(np.asarray(features.base_weight, np.float64), full_matrices=False)
    assert features.base_mean is not None
    mean = np.asarray(features.base_mean, np.float64).mean(0)
    return float(singular[-1] / singular[0]), float(abs(right[-1] @ mean) / np.linalg.norm(mean))


def interval(values: NDArray[np.floating]) -> float:
    return 1.96 * float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else float("nan")


def run(files: Sequence[FeatureSet], method: str, config: Config, workers: int | None) -> NDArray[np.floating]:
    """Accuracy (files, sessions + 1)."""
    learner = config.method(method)
    splits: list[Split] = [(file, None) for file in files]
    jobs = [Job(MultiSession(draws=1), learner, False, (i,)) for i in range(len(files))]
    return np.concatenate([found.weighted for found in run_jobs(splits, jobs, Placement(workers=workers))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path, nargs="+")
    parser.add_argument("--config", help="settings of methods, as for strong features")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    paths = [path for path in given.features if not path.stem.endswith(LEFT_OUT)]
    files = [FeatureSet.load(path).for_linear_scores() for path in paths]
    config = Config(MULTI_SESSION, ()) if given.config is None else Config.load(given.config, MULTI_SESSION)
    for path, file in zip(paths, files, strict=True):
        print(f"{path.stem:18} spare {spare(file)[0]:.5f}  cosine {spare(file)[1]:.2f}", flush=True)
    runs = {"svd": (files, "subspace"), "qr": (files, "subspace:basis=qr")}
    runs |= {f"qr, random {s}": ([replaced(f, s) for f in files], "subspace:basis=qr") for s in range(SEEDS)}
    found = {}
    for name, (changed, method) in runs.items():
        found[name] = run(changed, method, config, given.workers)
        last, apart = found[name][:, -1], found[name][:, -1] - found["svd"][:, -1]
        told = " ".join(f"{value:5.2f}" for value in found[name].mean(0))
        print(f"{name:12} {told}   last +- {interval(last):.2f}; - svd {apart.mean():+.2f} +- {interval(apart):.2f}")
        print(f"{'':12} last by file: {' '.join(f'{value:.1f}' for value in last)}", flush=True)


if __name__ == "__main__":
    main()
