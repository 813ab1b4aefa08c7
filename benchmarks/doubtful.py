"""Swapped labels found: Subspan's doubts beside cleanlab, on the base photographs of feature files.

    python benchmarks/doubtful.py birds.npz cifar.npz fruits.npz hands.npz --seeds 3

Last measured 2026-11-20, 2 CPU cores (AMD EPYC virtual machine, load 20), one thread, scikit-learn 1.9.1; mean over
three seeds, each seed, seconds of the last. The rows of cleanlab 2.9.0 are of 2026-11-19:

    hands    subspan                       99.16  (98.97, 99.22, 99.28)  0.9 s
    hands    cleanlab, self_confidence     98.61  (98.33, 98.78, 98.72)  1.0 s
    hands    cleanlab, normalized_margin   98.66  (98.33, 98.56, 99.08)  1.0 s
    fruits   subspan                       99.96  (99.96, 99.98, 99.95)  41.0 s
    fruits   cleanlab, self_confidence     99.97  (99.93, 99.98, 99.98)  4.5 s
    fruits   cleanlab, normalized_margin   99.77  (99.62, 99.84, 99.85)  4.5 s
    birds    subspan                       99.67  (99.56, 99.70, 99.74)  76.1 s
    birds    cleanlab, self_confidence     99.47  (99.37, 99.42, 99.63)  6.3 s
    birds    cleanlab, normalized_margin   97.17  (96.90, 97.01, 97.59)  6.3 s
    cifar    subspan                       98.27  (98.09, 98.23, 98.47)  93.2 s
    cifar    cleanlab, self_confidence     97.16  (97.10, 97.23, 97.16)  11.5 s
    cifar    cleanlab, normalized_margin   91.19  (91.38, 90.16, 92.03)  11.5 s

One label in ten is given to another class at random; the figure is the area under the ROC curve, in percent, of a
ranking of all base photographs by how well their label fits. Subspan: the probability of the own class by models of the
other folds (`subspan.catalogue.doubts`). cleanlab (`pip install cleanlab`): label quality scores from out-of-fold
probabilities of scikit-learn's logistic regression on the same features, five folds; self-confidence and normalised
margin, its two rankings. A file holds `base_X` (n, d) and `base_y` (n,).
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from subspan.catalogue.doubts import left_out_scores

Quality = Callable[[NDArray, NDArray], NDArray]  # of labels (n,) of features (n, d): low where one looks wrong


def subspan(features: NDArray, labels: NDArray) -> dict[str, NDArray]:
    return {"subspan": left_out_scores(features, labels)[np.arange(len(labels)), labels]}


def cleanlab(features: NDArray, labels: NDArray) -> dict[str, NDArray]:
    # no dependency: installed for this benchmark
    from cleanlab.rank import get_label_quality_scores  # pyright: ignore[reportMissingImports]

    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    model = LogisticRegression(max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged within 300 steps: more change no ranking
        found = cross_val_predict(model, features, labels, cv=folds, method="predict_proba")
    methods = ("self_confidence", "normalized_margin")
    return {f"cleanlab, {method}": get_label_quality_scores(labels, found, method=method) for method in methods}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for file in options.files:
        with np.load(file, allow_pickle=False) as arrays:
            features = arrays["base_X"].astype(np.float32)
            classes, true = np.unique(arrays["base_y"], return_inverse=True)
        found: dict[str, list[float]] = {}
        seconds: dict[str, float] = {}
        for seed in range(options.seeds):
            rng = np.random.default_rng(seed)
            labels, swapped = true.copy(), rng.permutation(len(true))[: len(true) // 10]
            labels[swapped] = (labels[swapped] + rng.integers(1, len(classes), len(swapped))) % len(classes)
            for way in (subspan, cleanlab):
                began = time.perf_counter()
                qualities = way(features, labels)
                seconds[way.__name__] = time.perf_counter() - began
                for name, quality in qualities.items():
                    found.setdefault(name, []).append(100 * float(roc_auc_score(labels != true, -quality)))
        for name, areas in found.items():
            spread = ", ".join(f"{area:.2f}" for area in areas)
            print(f"{file.stem:8s} {name:28s} {np.mean(areas):6.2f}  ({spread})  {seconds[name.split(',')[0]]:.1f} s")


if __name__ == "__main__":
    main()
