"""The default on photographs and on measured columns, beside what it is made of and what people write instead.

    .venv/bin/python benchmarks/photographs.py [FOLDER]

FOLDER holds one .npz of features a set: base_X, base_y, then s01_X, s01_y, ... a session each, and test_X, test_y.
Without it only the measured columns are run. Accuracy in percent after the last session, classes counted alike:
all (base / novel). docs/tried.md has what each part of the rule is worth.

Last measured 2026-11-20, 2 CPU cores shared with others, once; birds, cifar, fruits, hands, and their mean; then
digits, wine, iris, Gaussian blobs in 30 and 3 dimensions, means of five draws:

    default             75.8  58.2  95.0  88.0  79.25    90.5  96.5  95.7  100.0  94.3
    calibrated          73.4  56.4  92.9  83.2  76.48    89.8  60.1  76.9   99.9  77.9
    prototype           56.7  41.8  86.3  67.2  63.03    86.0  61.0  67.8   99.9  74.7
    ridge, refit        71.4  54.2  84.4  80.5  72.64    86.2  95.4  73.3   99.9  47.1
    LDA, refit          68.7  47.8  77.1  74.0  66.93    85.7  95.2  94.9   99.8  92.7
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier

from subspan import IncrementalClassifier
from subspan.learners import posterior as rule
from subspan.learners.parts import class_means, within_space

Part = tuple[NDArray[Any], NDArray[Any]]  # features (n, d) and labels (n,)
Task = tuple[list[Part], Part]  # the sessions, the first of them the base session; the test
DRAWS = 5


def photographs(path: Path) -> list[Task]:
    """The one task of a file of features."""
    with np.load(path, allow_pickle=False) as arrays:
        names = ["base", *sorted(key[:-2] for key in arrays.files if key[0] == "s" and key.endswith("_X"))]
        parts = {name: (arrays[f"{name}_X"].astype(np.float32), arrays[f"{name}_y"]) for name in [*names, "test"]}
    return [([parts[name] for name in names], parts["test"])]


def columns(X: NDArray[Any], y: NDArray[Any]) -> Iterator[Task]:
    """Draws of measured columns: two thirds to teach, base classes whole, the others by five examples."""
    for draw in range(DRAWS):
        rng = np.random.default_rng(draw)
        classes = rng.permutation(np.unique(y))
        base = classes[: max(2, len(classes) * 6 // 10)]
        taught, asked = {}, []
        for label in classes:
            mine = rng.permutation(np.flatnonzero(y == label))
            cut = 2 * len(mine) // 3
            taught[label] = mine[:cut] if label in base else mine[:5]
            asked.append(mine[cut:])
        first, last = np.concatenate([taught[label] for label in base]), np.concatenate(asked)
        later = [(X[taught[label]], y[taught[label]]) for label in classes if label not in base]
        yield [(X[first], y[first]), *later], (X[last], y[last])


def blobs(width: int, distance: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ten Gaussian classes of sixty examples."""
    rng = np.random.default_rng(width)
    y = np.repeat(np.arange(10), 60)
    return (rng.normal(size=(10, width)) * distance)[y] + rng.normal(size=(len(y), width)), y


def default(sessions: list[Part], **options: Any) -> Callable[[NDArray[Any]], NDArray[Any]]:
    model = IncrementalClassifier(**options).fit(*sessions[0])
    for X, y in sessions[1:]:
        model.add_classes(X, y)
    return model.predict


def refit(estimator: Any) -> Callable[[list[Part]], Callable[[NDArray[Any]], NDArray[Any]]]:
    def fitted(sessions: list[Part]) -> Callable[[NDArray[Any]], NDArray[Any]]:
        return estimator.fit(*(np.concatenate(part) for part in zip(*sessions, strict=True))).predict

    return fitted


def named(method: str) -> Callable[[list[Part]], Callable[[NDArray[Any]], NDArray[Any]]]:
    return lambda sessions: default(sessions, method=method)


def without(*changes: tuple[Any, str, Any]) -> Callable[[list[Part]], Callable[[NDArray[Any]], NDArray[Any]]]:
    """The default with parts of the rule taken out: (module, name, what stands in)."""

    def changed(sessions: list[Part]) -> Callable[[NDArray[Any]], NDArray[Any]]:
        def predict(queries: NDArray[Any]) -> NDArray[Any]:
            with ExitStack() as stack:
                for module, name, instead in changes:
                    stack.enter_context(patch.object(module, name, instead))
                return default(sessions)(queries)

        return predict

    return changed


def uncorrected(values: NDArray[Any], freedom: float, dimensions: int) -> tuple[NDArray[Any], float]:
    return values, float(values.min(initial=1.0))


def linear(values: NDArray[Any], freedom: float, dimensions: int) -> tuple[NDArray[Any], float]:
    chance = within_space.share_of_chance(values, freedom, dimensions)
    mean = values.sum() / dimensions
    return (1 - chance) * values + chance * mean, chance * mean


def as_observed(means: NDArray[Any], *_: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    return means, np.zeros(means.shape[:-1])


def not_widened(*given: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    expected, uncertain = class_means.posterior(*given)
    return expected, np.zeros_like(uncertain)


def rooted(features: Any, signed: bool, prepare: Any = rule.prepared) -> Any:
    return prepare(features, not signed)


WAYS: dict[str, Callable[[list[Part]], Callable[[NDArray[Any]], NDArray[Any]]]] = {
    "default": default,
    **{f"power {power}": named(f"posterior:power={power}") for power in (0.5, 0.7, 0.9, 1)},
    **{f"span {span}": named(f"posterior:span={span}") for span in (0, 0.2, 0.5, 0.7)},
    "root where signed, none where not": without((rule, "prepared", rooted)),
    "eigenvalues as they are": without((within_space, "shrunk", uncorrected)),
    "eigenvalues by linear shrinkage": without((within_space, "shrunk", linear)),
    "eigenvalues not linear where few": without((within_space, "FEW_EXAMPLES", 0)),
    "all that base means show is certain": without((class_means, "share_of_chance", lambda *_: 0.0)),
    "lengths as they are after T": without((rule, "UNIT_FROM", 10**9)),
    "means as observed": without((rule, "posterior", as_observed)),
    "not widened": without((rule, "posterior", not_widened)),
    "calibrated": named("calibrated:shrinkage=3,offset=0.02"),
    "prototype": named("prototype"),
    "ridge, refit": refit(RidgeClassifier(alpha=100, class_weight="balanced")),
    "LDA, refit": refit(LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")),
}


def accuracy(predicted: NDArray[Any], labels: NDArray[Any], base: set[Any]) -> list[float]:
    of_class = {label: np.mean(predicted[labels == label] == label) for label in np.unique(labels)}
    old = [value for label, value in of_class.items() if label in base]
    new = [value for label, value in of_class.items() if label not in base]
    return [100 * float(np.mean(values)) for values in (old + new, old, new)]


def main() -> None:
    tasks: dict[str, list[Task]] = {}
    if len(sys.argv) > 1:
        tasks = {path.stem: photographs(path) for path in sorted(Path(sys.argv[1]).glob("*.npz"))}
    many = len(tasks)
    for name, load in {"digits": load_digits, "wine": load_wine, "iris": load_iris}.items():
        tasks[name] = list(columns(*load(return_X_y=True)))
    tasks |= {"blobs 30": list(columns(*blobs(30, 1.2))), "blobs 3": list(columns(*blobs(3, 3.0)))}
    print(f"{'':34s}" + "".join(f"{name:>17s}" for name in tasks) + ("   mean of photographs" if many else ""))
    for way, run in WAYS.items():
        row = []
        for of_set in tasks.values():
            found = [accuracy(run(parts)(X), y, set(parts[0][1])) for parts, (X, y) in of_set]
            row.append(np.mean(found, axis=0))
        cells = "".join(f"{f'{a:.1f} ({b:.0f} / {c:.0f})':>17s}" for a, b, c in row)
        print(f"{way:34s}{cells}" + (f"{np.mean([r[0] for r in row[:many]]):12.2f}" if many else ""), flush=True)


if __name__ == "__main__":
    main()
