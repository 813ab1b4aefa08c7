"""Probabilities and strangers: calibration and familiarity of the default on feature files with sessions.

    python benchmarks/judgement.py birds.npz cifar.npz fruits.npz hands.npz

Last measured 2026-11-20, one run, 2 CPU cores (AMD EPYC virtual machine, others at work on it):

             sessions  calibration error  familiarity  probability
    birds           0              0.034        84.46        78.99
    birds           4              0.057        78.94        75.01
    birds           8              0.041
    cifar           0              0.042        72.61        69.53
    cifar           4              0.062        73.51        68.16
    cifar           8              0.046
    fruits          0              0.008        98.47        96.96
    fruits          5              0.021        95.19        92.96
    fruits         10              0.019
    hands           0              0.019        90.57        92.41
    hands           3              0.048        87.38        81.39
    hands           6              0.046

After the base session, after half of the sessions and after the last: expected calibration error (top label, 15 bins of
equal width) on the test examples of classes that are known; area under the ROC curve, in percent, of familiarity and of
the greatest probability, where the test examples of the other classes are strangers. A file holds `base_X`, `base_y`,
`s01_X`, `s01_y` ... and `test_X`, `test_y`.
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from subspan import IncrementalClassifier

BINS = 15


def calibration_error(probabilities: NDArray, labels: NDArray) -> float:
    """Mean difference between what is said and what is right; probabilities (n, C), labels (n,)."""
    said, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    bins = np.minimum((said * BINS).astype(int), BINS - 1)
    return sum(abs(right[bins == b].mean() - said[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--method", default="auto")
    options = parser.parse_args()
    print(f"{'':8s} {'sessions':>8s} {'calibration error':>18s} {'familiarity':>12s} {'probability':>12s}")
    for file in options.files:
        with np.load(file, allow_pickle=False) as arrays:
            keys = ["base", *sorted(key[:-2] for key in arrays if key.startswith("s") and key.endswith("_X"))]
            parts = [(arrays[f"{key}_X"].astype(np.float32), arrays[f"{key}_y"]) for key in keys]
            asked, true = arrays["test_X"].astype(np.float32), arrays["test_y"]
        model = IncrementalClassifier(method=options.method).fit(*parts[0])
        for number in range(len(parts)):
            if number:
                model.add_classes(*parts[number])
            if number not in (0, len(parts) // 2, len(parts) - 1):
                continue
            classes = model.classes_.tolist()
            known = np.isin(true, classes)
            found = model.predict_proba(asked)
            error = calibration_error(found[known], np.array([classes.index(name) for name in true[known]]))
            areas = ""
            if not known.all():
                ways = model.familiarity(asked), found.max(axis=1)
                areas = "".join(f" {100 * float(roc_auc_score(known, way)):12.2f}" for way in ways)
            print(f"{file.stem:8s} {number:8d} {error:18.3f}{areas}", flush=True)


if __name__ == "__main__":
    main()
