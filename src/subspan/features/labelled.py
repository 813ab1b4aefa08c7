"""From labelled features to a feature file: statistics, rows and memory of the base classes, and who is a query."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.values import FEATURE_LENGTH, Features, Labels, examples_of, length, plain_label, show

TEST_SHARE = 5  # one in so many examples of a class is a query where none are given


def class_statistics(
    training: Sequence[FloatArray], memory: Sequence[int] | NDArray[np.int64], *, unit: bool = False, covariance: bool
) -> dict[str, FloatArray]:
    """Means, one example to remember, by its place, and if asked for the covariance of base classes: C0 arrays (n, d).

    ``unit`` is for the covariance of a cosine head.
    """
    found = {
        "base_mean": np.stack([part.astype(np.float64).mean(0) for part in training]).astype(np.float32),
        "base_memory": np.stack([part[place] for part, place in zip(training, memory, strict=True)]),
    }
    return found | ({"base_covariance": within_class_covariance(training, unit=unit)} if covariance else {})


def within_class_covariance(classes: Sequence[NDArray[Any]], *, unit: bool = False) -> FloatArray:
    """Covariance (d, d) of features (n, d) around the means of their classes, pooled over the classes.

    Deviations count equally whatever the class and are divided by their number less the number of classes. With
    ``unit`` features are scaled to length one first, which is all that a cosine head sees of them.
    """
    scatter = np.zeros((classes[0].shape[1],) * 2)
    for part in classes:
        part = part.astype(np.float64)
        if unit:
            part = part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12)
        deviations = part - part.mean(0)
        scatter += deviations.T @ deviations
    return (scatter / max(1, sum(map(len, classes)) - len(classes))).astype(np.float32)


def logistic_rows(
    features: NDArray[Any], labels: NDArray[np.int64], decay: float, bias: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows (C0, d) and biases (C0,) of features (n, d) with labels (n,), by logistic regression under weight decay."""
    from sklearn.linear_model import LogisticRegression  # here: photographs need no rows that are learned

    # Of two classes scikit-learn learns one row w; the two rows are -w/2 and w/2, of half its squared norm.
    two = labels.max() == 1
    inverse_decay = (2 if two else 1) / (decay * len(features))
    regression = LogisticRegression(C=inverse_decay, fit_intercept=bias, max_iter=1000).fit(features, labels)
    weights, biases = np.asarray(regression.coef_), np.asarray(regression.intercept_)
    if two:
        return np.concatenate([-weights, weights]) / 2, np.array([-1, 1]) * biases / 2
    return weights, biases


def learned_head(training: Sequence[FloatArray], decay: float = 5e-4) -> tuple[float, FloatArray, FloatArray]:
    """Rows (C0, d) and biases (C0,) by logistic regression on features of base classes, C0 arrays (n, d).

    They are those of the features divided by the number that comes first: these have the length that the steps and
    penalties of this field are made for.
    """
    features = np.concatenate(training)
    unit = length(features) / FEATURE_LENGTH or 1.0
    labels = np.repeat(np.arange(len(training)), [len(part) for part in training])
    weight, bias = logistic_rows(features / unit, labels, decay, bias=True)
    return unit, weight.astype(np.float32), bias.astype(np.float32)


def labelled_arrays(
    X: Features, y: Labels, base: Sequence[Any], test: tuple[Features, Labels] | None, decay: float, seed: int
) -> dict[str, Any]:
    """The arrays of a feature file, as `FeatureSet.from_labelled` explains them."""
    features, labels = examples_of(X, y, None)
    known = set(labels.tolist())
    if missing := [label for label in base if plain_label(label) not in known]:
        raise ValueError(f"every base class needs examples; {show(missing[0])} has none")
    base = [plain_label(label) for label in base]
    novel = sorted(known - set(base))
    if not novel:
        raise ValueError(f"some classes must be novel; all {len(base)} are base classes")
    rng = np.random.default_rng(seed)
    kept = {label: rng.permutation(np.flatnonzero(labels == label)) for label in (*base, *novel)}
    if test is None:
        queries, asked = features, {label: rows[: max(1, len(rows) // TEST_SHARE)] for label, rows in kept.items()}
        kept = {label: rows[len(asked[label]) :] for label, rows in kept.items()}
    else:
        queries, query_labels = examples_of(*test, features.shape[1], labels[0])
        asked = {label: np.flatnonzero(query_labels == label) for label in kept}
    for what, rows in (("an example to learn from", kept), ("a test example", asked)):
        if short := [label for label in kept if not len(rows[label])]:
            raise ValueError(f"every class needs {what}; {show(short[0])} has none")
    training = [features[kept[label]] for label in base]
    unit, weight, bias = learned_head(training, decay)
    training = [(part / unit).astype(np.float32) for part in training]
    arrays: dict[str, Any] = {"base_weight": weight, "base_bias": bias, "meta": {"unit": unit}}
    arrays |= class_statistics(training, [0] * len(base), covariance=True)  # the order is random already
    for name, source, rows, classes in (
        ("base_test", queries, asked, base),
        ("novel_test", queries, asked, novel),
        ("novel_support", features, kept, novel),
    ):
        parts = [source[rows[label]] for label in classes]
        arrays[name] = (np.concatenate(parts) / unit).astype(np.float32)
        arrays[f"{name}_labels"] = np.repeat(np.arange(len(classes)), [len(part) for part in parts])
    arrays["novel_support"] = arrays["novel_support"][:, None]
    return arrays | {"base_names": base, "novel_names": novel}
