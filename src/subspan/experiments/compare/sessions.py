"""Sessions from a person's own examples: which classes are novel, what of them is taught, what is held out to test."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subspan.experiments.inputs import ProtocolError
from subspan.files.arrays import read_arrays, write_arrays
from subspan.values import check_options, finite, option

Features = NDArray[np.float32]
Examples = tuple[Features, NDArray[Any]]  # features (n, d) and labels (n,)
BASE, TEST = "base", "test"  # in the names of arrays of a file of sessions, beside s01, s02 ...


@dataclass(frozen=True)
class Drawing:
    """How sessions are drawn from examples of classes."""

    novel: float = option(0.4, "share of the classes that come after the base session, others in every draw")
    ways: int = option(5, "novel classes in a session")
    shots: int = option(5, "examples taught of each novel class, as far as it has one more to test with")
    test: float = option(0.2, "share of each base class held out to test with; of a novel class all that is not taught")
    draws: int = option(5, "draws of classes and of examples")
    seed: int = option(0, "of the draws")

    def __post_init__(self) -> None:
        check_options(self, shares=("novel",), at_least={1: ("ways", "shots", "draws"), 0: ("seed",)})
        check_options(self, below_one=("test",), positive=("test",))


@dataclass(frozen=True)
class Stream:
    """Sessions of examples, session 0 first, and test examples of all classes."""

    sessions: tuple[Examples, ...]
    test: Examples


def draw_streams(
    X: NDArray[Any], y: NDArray[Any], drawing: Drawing | None = None, novel_classes: Sequence[Any] = ()
) -> list[Stream]:
    """One stream for each draw, of examples X (n, d) with labels y (n,); with ``novel_classes`` these come later.

    Classes of a single example are left out with a warning: none would be left to test with.
    """
    drawing = drawing or Drawing()
    features, labels = np.asarray(finite(X, "X"), np.float32), np.asarray(y)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ProtocolError(f"examples must be X (n, d) and y (n,); got {features.shape} and {labels.shape}")
    names, counts = np.unique(labels, return_counts=True)
    if unknown := [name for name in novel_classes if name not in names]:
        raise ProtocolError(
            f"there is no class '{unknown[0]}' to come later; the classes are {', '.join(map(str, names))}"
        )
    if (counts < 2).any():
        single = ", ".join(map(str, names[counts < 2]))
        warnings.warn(f"left out, as a single example cannot be taught and tested: {single}", stacklevel=2)
    usable = names[counts > 1]
    later = len(novel_classes) or max(1, round(drawing.novel * len(usable)))
    if len(usable) - later < 2:
        raise ProtocolError(f"a base session needs at least two classes; {len(usable)} classes less {later} novel ones")
    return [
        _drawn(features, labels, usable, later, novel_classes, drawing, np.random.default_rng([drawing.seed, draw]))
        for draw in range(drawing.draws)
    ]


def _drawn(
    X: Features,
    y: NDArray[Any],
    names: NDArray[Any],
    later: int,
    novel_classes: Sequence[Any],
    drawing: Drawing,
    rng: np.random.Generator,
) -> Stream:
    order = rng.permutation(names)
    novel = list(novel_classes) or order[len(order) - later :].tolist()
    base = [name for name in order.tolist() if name not in novel]
    parts = [base, *(novel[at : at + drawing.ways] for at in range(0, len(novel), drawing.ways))]
    sessions, test = [], []
    for number, classes in enumerate(parts):
        taught = []
        for name in classes:
            places = rng.permutation(np.flatnonzero(y == name))
            held_out = max(1, round(drawing.test * len(places))) if number == 0 else len(places) - drawing.shots
            held_out = min(max(1, held_out), len(places) - 1)
            test.append(places[:held_out])
            taught.append(places[held_out:])
        chosen = np.concatenate(taught)
        sessions.append((X[chosen], y[chosen]))
    held = np.concatenate(test)
    return Stream(tuple(sessions), (X[held], y[held]))


def read_examples(path: Path) -> Stream | Examples:
    """What a feature file holds: examples ``X`` and ``y``, or sessions of them.

    Sessions are ``base_X`` (n, d), ``base_y`` (n,), then ``s01_X``, ``s01_y``, ``s02_X`` ..., and ``test_X``,
    ``test_y`` over all classes.
    """
    arrays, _ = read_arrays(path, "", ProtocolError)
    if {"X", "y"} <= set(arrays):
        return _examples(arrays, "", path)
    if "base_weight" in arrays:
        raise ProtocolError(
            f"'{path}' holds statistics of base classes, from which nothing can be refit; compare with: subspan bench"
        )
    later = sorted(name[:-2] for name in arrays if name[0] == "s" and name[1:-2].isdigit() and name.endswith("_X"))
    if not {f"{BASE}_X", f"{TEST}_X"} <= set(arrays) or not later:
        raise ProtocolError(
            f"'{path}' must hold X and y, or base_X, base_y, s01_X, s01_y ... test_X, test_y; it holds "
            f"{', '.join(arrays) or 'nothing'}"
        )
    sessions = tuple(_examples(arrays, f"{part}_", path) for part in (BASE, *later))
    test, seen = _examples(arrays, f"{TEST}_", path), set[Any]()
    for part, (X, y) in zip((BASE, *later), sessions, strict=True):
        if X.shape[1] != test[0].shape[1]:
            raise ProtocolError(f"'{path}': {part}_X has {X.shape[1]} columns, test_X has {test[0].shape[1]}")
        if known := seen.intersection(y.tolist()):
            raise ProtocolError(f"'{path}': session {part} teaches class '{min(known)}' again")
        seen.update(y.tolist())
    if unseen := seen.symmetric_difference(test[1].tolist()):
        raise ProtocolError(f"'{path}': class '{min(unseen)}' must be both taught and tested")
    return Stream(sessions, test)


def _examples(arrays: dict[str, NDArray[Any]], prefix: str, path: Path) -> Examples:
    X, y = arrays[f"{prefix}X"], arrays.get(f"{prefix}y")
    if y is None or X.ndim != 2 or y.shape != X.shape[:1] or not len(X):
        shape = None if y is None else y.shape
        raise ProtocolError(f"'{path}': {prefix}X must be (n, d) with {prefix}y (n,); got {X.shape} and {shape}")
    return np.asarray(finite(X, f"{prefix}X"), np.float32), y.astype(str)


def all_examples(stream: Stream) -> Examples:
    """Everything in a stream, to draw other sessions from."""
    X, y = zip(*stream.sessions, stream.test, strict=True)
    return np.concatenate(X), np.concatenate(y)


def write_examples(path: Path, X: Features, y: NDArray[Any]) -> None:
    """Keep features for `read_examples`, in half precision where they fit."""
    fits = np.abs(X).max(initial=0) < np.finfo(np.float16).max
    write_arrays(path, {"X": X.astype(np.float16) if fits else X, "y": y}, "about", "features by subspan compare")
