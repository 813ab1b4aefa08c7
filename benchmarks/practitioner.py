"""Photographs in, classes added: Subspan beside what people do instead, on miniImageNet with EfficientNet-Lite0.

Last measured 2026-11-15, one run, 2 CPU cores (AMD EPYC virtual machine, others at work on it), one thread, torch
2.13.0; accuracy in percent on all classes after a session, then base and novel classes after the last, then processor
seconds:

                                              session 0     4     8     base  novel     base fit  a session
    Subspan, auto (calibrated)                     84.1  76.8  73.7     78.0   67.2         17.3      0.009
    Subspan, finetune, memory 5                    85.0  75.1  70.4     82.6   52.2         15.3      0.495
    Subspan, prototype                             83.4  67.4  62.3     56.5   71.0         15.2      0.002
    LogisticRegression, refit on everything        85.0  66.2  55.4     85.0   11.1         15.6     18.9
    LogisticRegression, refit, balanced            85.0  71.3  64.7     85.3   33.9         14.9     16.0
    nearest class mean (NearestCentroid)           79.0  69.0  65.1     77.6   46.4          1.4      0.231
    SGDClassifier.partial_fit                      80.7  65.1  55.6     64.7   41.9         45.6      0.166

    python benchmarks/practitioner.py MINI_IMAGENET --cache features.npz            # the table
    python benchmarks/practitioner.py MINI_IMAGENET --cache features.npz --choose   # how method "auto" was chosen

MINI_IMAGENET holds images-0.zip .. images-3.zip and the lists of the fixed split (session 0: 60 classes x 500 images,
then eight sessions of 5 classes x 5 images; 100 test images a class). The network has seen these classes: ImageNet,
which it was trained on, contains miniImageNet. So the figures say how the ways of adding classes compare on good
features, not how well a few-shot learner does on classes that are new to its network.

Seconds are processor seconds on one thread, features given. A row's "base" is the time to learn session 0, "a session"
the mean over the eight. A refit learns everything again from all features kept so far. SGDClassifier must be told all
100 classes at the start; partial_fit takes PASSES passes over what arrives, in random order.

--choose draws base and novel classes, their training and their test images from the *training images of the 60 base
classes*, three draws each: nothing that the table reports.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestCentroid
from threadpoolctl import threadpool_limits

from subspan.catalogue.rejection import familiarity
from subspan.classifier import IncrementalClassifier
from subspan.images.read import read_images
from subspan.images.splits.fixed_sessions import FixedSessions
from subspan.pretrained.registry import DEFAULT_BACKBONE, load_backbone

PASSES = 5  # of SGDClassifier over what arrives
MEMORY = 5
CONSOLE = Console(highlight=False, width=120)
Array = NDArray[np.float32]
Examples = tuple[Array, NDArray[np.int64]]  # features (n, d) and labels (n,)


@dataclass(frozen=True)
class Stream:
    """Sessions of examples, session 0 first, and test examples of all classes."""

    sessions: Sequence[Examples]
    test: Sequence[Examples]  # of the classes of each session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("images", type=Path, help="folder with miniImageNet's zips and lists")
    parser.add_argument("--cache", type=Path, required=True, help="npz file where features are kept")
    parser.add_argument("--backbone", default=DEFAULT_BACKBONE)
    parser.add_argument("--choose", action="store_true", help="compare methods on development classes instead")
    options = parser.parse_args()
    features = {} if not options.cache.exists() else load_cache(options.cache)
    stream, pool = fixed_sessions(options.images, features, options.cache, options.backbone)
    with threadpool_limits(1):
        if options.choose:
            choose(pool)
        else:
            compare(stream)


# Features


def load_cache(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as file:
        return dict(zip(file["files"].tolist(), file["features"], strict=True))


def fixed_sessions(path: Path, features: dict[str, Array], cache: Path, backbone: str) -> tuple[Stream, list[Array]]:
    """The fixed split as features, and the training features (500, d) of each base class."""
    images = read_images(path)
    split = FixedSessions().make(images)
    novel_support = [pool[: split.listed_support] for pool in split.novel_support_pool]
    needed = np.concatenate([split.base_train, split.base_test, *novel_support, *split.novel_test])
    missing = [i for i in needed if images.files[i] not in features]
    if missing:
        network = load_backbone(backbone)
        began = time.perf_counter()
        for start in track(range(0, len(missing), 256), "features", console=Console(stderr=True)):
            chosen = missing[start : start + 256]
            found = network.features([images.images[i] for i in chosen])
            features.update({images.files[i]: row for i, row in zip(chosen, found, strict=True)})
        rate = len(missing) / (time.perf_counter() - began)
        CONSOLE.print(f"{len(missing)} images through '{network.name}': {rate:.0f} images/s")
        np.savez(cache, files=np.array(list(features)), features=np.stack(list(features.values())))

    def get(indices: NDArray[np.int64]) -> Array:
        return np.stack([features[images.files[i]] for i in indices])

    place = {c: i for i, c in enumerate(split.base_classes + split.novel_classes)}

    def labelled(indices: NDArray[np.int64]) -> Examples:
        return get(indices), np.array([place[int(images.labels[i])] for i in indices])

    sessions, test = [labelled(split.base_train)], [labelled(split.base_test)]
    position = {c: i for i, c in enumerate(split.novel_classes)}
    for classes in split.sessions:
        sessions.append(labelled(np.concatenate([novel_support[position[c]] for c in classes])))
        test.append(labelled(np.concatenate([split.novel_test[position[c]] for c in classes])))
    X, y = sessions[0]
    return Stream(sessions, test), [X[y == c] for c in range(len(split.base_classes))]


# Ways of adding classes: each takes the sessions one by one and gives a function from features to labels


class Ours:
    """`IncrementalClassifier` as a catalogue uses it."""

    def __init__(self, method: str, memory: int) -> None:
        self.model = IncrementalClassifier(method=method, memory=memory)

    def learn(self, X: Array, y: NDArray[np.int64]) -> None:
        if hasattr(self.model, "classes_"):
            self.model.add_classes(X, y)
        else:
            self.model.fit(X, y)

    def predict(self, X: Array) -> NDArray[Any]:
        return np.asarray(self.model.predict(X))


class Refit:
    """A scikit-learn estimator, learned again from everything at every session."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make, self.kept = make, []

    def learn(self, X: Array, y: NDArray[np.int64]) -> None:
        self.kept.append((X, y))
        features, labels = (np.concatenate(parts) for parts in zip(*self.kept, strict=True))
        self.model = self.make(len(features)).fit(features, labels)

    def predict(self, X: Array) -> NDArray[Any]:
        return np.asarray(self.model.predict(X))


class PartialFit:
    """SGDClassifier on what arrives only."""

    def __init__(self, classes: int) -> None:
        self.model = SGDClassifier(loss="log_loss", alpha=1e-4, random_state=0)
        self.classes, self.rng = np.arange(classes), np.random.default_rng(0)

    def learn(self, X: Array, y: NDArray[np.int64]) -> None:
        for _ in range(PASSES):
            order = self.rng.permutation(len(y))
            self.model.partial_fit(X[order], y[order], classes=self.classes)

    def predict(self, X: Array) -> NDArray[Any]:
        return np.asarray(self.model.predict(X))


def logistic(balanced: bool) -> Callable[[int], Any]:
    """The regression that `IncrementalClassifier.fit` uses: decay 5e-4 on the mean loss."""
    weight = "balanced" if balanced else None
    return lambda count: LogisticRegression(C=1 / (5e-4 * count), max_iter=1000, class_weight=weight)


def compare(stream: Stream) -> None:
    classes = int(max(y.max() for _, y in stream.sessions)) + 1
    ways: dict[str, Callable[[], Any]] = {
        "Subspan, auto (calibrated)": lambda: Ours("auto", 0),
        f"Subspan, finetune, memory {MEMORY}": lambda: Ours("finetune", MEMORY),
        "Subspan, prototype": lambda: Ours("prototype", 0),
        f"Subspan, subspace, memory {MEMORY}": lambda: Ours("subspace", MEMORY),
        "Subspan, subspace, no examples kept": lambda: Ours("subspace", 0),
        "LogisticRegression, refit on everything": lambda: Refit(logistic(False)),
        "LogisticRegression, refit, balanced": lambda: Refit(logistic(True)),
        "nearest class mean (NearestCentroid)": lambda: Refit(lambda _: NearestCentroid()),
        "SGDClassifier.partial_fit": lambda: PartialFit(classes),
    }
    CONSOLE.print(f"{'':42}accuracy after session{'':22}last session     seconds")
    CONSOLE.print(f"{'':42}     0     2     4     6     8  mean     base  novel   base  a session")
    for name, make in ways.items():
        way, seconds, accuracies, right = make(), [], [], []
        for number, (X, y) in enumerate(stream.sessions):
            began = time.process_time()
            way.learn(X, y)
            seconds.append(time.process_time() - began)
            right = [way.predict(Q) == truth for Q, truth in stream.test[: number + 1]]
            accuracies.append(100 * np.concatenate(right).mean())
        base, novel = 100 * right[0].mean(), 100 * np.concatenate(right[1:]).mean()
        steps = "".join(f"{accuracies[i]:6.1f}" for i in (0, 2, 4, 6, 8))
        CONSOLE.print(
            f"{name:42}{steps}{np.mean(accuracies):6.1f}   {base:6.1f} {novel:6.1f} {seconds[0]:6.1f} "
            f"{np.mean(seconds[1:]):10.3f}"
        )


# How the default was chosen

CANDIDATES = (
    ("prototype", 0),
    ("prototype:base=means", 0),
    ("finetune", 0),
    ("finetune", 1),
    ("finetune", 5),
    ("finetune", 10),
    ("subspace", 0),
    ("subspace", 1),
    ("subspace", 5),
    ("calibrated", 0),
    *((f"calibrated:shrinkage={shrinkage},offset={offset}", 0) for shrinkage in (1, 3) for offset in (0.03, 0.02)),
)
FROM_WEIGHTS = (("subspace", 0), ("subspace", 5), ("finetune", 5), ("imprint", 0))
SETTINGS = ((40, 4, 5, 60), (40, 10, 1, 60), (10, 10, 1, 60), (10, 10, 1, 15), (3, 6, 1, 20))
DRAWS, SHOTS, TEST = 3, 5, slice(400, 450)


def choose(pool: Sequence[Array]) -> None:
    """All-class, base and novel accuracy of methods on development classes, and two scores for rejection."""
    for base_count, sessions, ways, examples in SETTINGS:
        CONSOLE.print(f"\n{base_count} base classes x {examples} examples, {sessions} sessions of {ways} x {SHOTS}")
        for weights_only, candidates in ((False, CANDIDATES), (True, FROM_WEIGHTS)):
            for method, memory in candidates:
                results = []
                for draw in range(DRAWS):
                    order = np.random.default_rng(draw).permutation(len(pool))[: base_count + sessions * ways]
                    results.append(_one_draw(pool, order, base_count, ways, examples, method, memory, weights_only))
                everything, base, novel = np.mean(results, axis=0)
                label = f"{method}, memory {memory}" + (", from weights only" if weights_only else "")
                CONSOLE.print(f"    {label:46} all {everything:5.1f}  base {base:5.1f}  novel {novel:5.1f}")
    scores = [_rejection(pool, draw) for draw in range(DRAWS)]
    best, energy = np.mean(scores, axis=0)
    CONSOLE.print(
        f"\nKnown against unknown, area under the curve: best probability {best:.3f}, familiarity {energy:.3f}"
    )


def _one_draw(
    pool: Sequence[Array],
    order: NDArray[np.int64],
    base_count: int,
    ways: int,
    examples: int,
    method: str,
    memory: int,
    weights_only: bool,
) -> tuple[float, float, float]:
    base, novel = order[:base_count], order[base_count:]
    X, y = np.concatenate([pool[c][:examples] for c in base]), np.repeat(base, examples)
    model = IncrementalClassifier(method=method, memory=memory)
    if weights_only:
        learned = IncrementalClassifier(method="subspace").fit(X, y)  # rows as the regression has them
        model = IncrementalClassifier.from_weights(
            learned.coef_, learned.classes_.tolist(), learned.intercept_, method=method, memory=memory
        )
    else:
        model.fit(X, y)
    for start in range(0, len(novel), ways):
        now = novel[start : start + ways]
        model.add_classes(np.concatenate([pool[c][:SHOTS] for c in now]), np.repeat(now, SHOTS))
    right = {int(c): float((model.predict(pool[c][TEST]) == c).mean()) for c in order}
    means = [100 * float(np.mean([right[int(c)] for c in part])) for part in (order, base, novel)]
    return means[0], means[1], means[2]


def _rejection(pool: Sequence[Array], draw: int) -> tuple[float, float]:
    """Areas under the curve of the best probability and of familiarity, 40 known against 20 unknown classes."""
    order = np.random.default_rng(draw).permutation(len(pool))
    model = IncrementalClassifier(method="subspace")
    model.fit(np.concatenate([pool[c][:60] for c in order[:40]]), np.repeat(order[:40], 60))
    scores = np.asarray(model.class_scores(np.concatenate([pool[c][TEST] for c in order])), np.float64)
    known = np.repeat(np.arange(len(order)) < 40, TEST.stop - TEST.start)
    energy = familiarity(scores)
    return float(roc_auc_score(known, scores.max(axis=1) - energy)), float(roc_auc_score(known, energy))


if __name__ == "__main__":
    main()
