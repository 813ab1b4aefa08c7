"""What a catalogue is worth on photographs it was not taught: five models, each asked about the fifth it was not.

Nothing is withheld from the catalogue itself. A photograph that is the only one of its class is not asked about.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.catalogue.rejection import fit_temperature
from subspan.learners.registry import create_method
from subspan.model import Model

FOLDS = 5


@dataclass(frozen=True)
class Unseen:
    """What models said of photographs of known classes that they were not taught."""

    familiarities: FloatArray  # (k,)
    temperature: float = 1.0  # by which scores become probabilities
    right: float | None = None  # percent

    @classmethod
    def of(cls, model: Model, features: FloatArray, labels: NDArray[np.int64]) -> Self:
        """What a model says of examples (k, d) of the classes at these places (k,)."""
        return cls.judged(model, model.class_scores(features), labels, model.familiarity(features))

    @classmethod
    def judged(cls, model: Model, scores: FloatArray, labels: NDArray[np.int64], familiarities: FloatArray) -> Self:
        """From scores (k, C) by models like the given one."""
        scores, familiarities = (np.asarray(numbers, np.float64) for numbers in (scores, familiarities))
        calibrated = create_method(str(model.method_)).calibrated
        temperature = 1.0 if calibrated else fit_temperature(scores, labels)
        return cls(familiarities, temperature, 100 * float((scores.argmax(axis=1) == labels).mean()))


def by_folds(
    fit: Callable[[NDArray[np.bool_]], Model], labels: NDArray[np.integer]
) -> Iterator[tuple[Model, NDArray[np.bool_]]]:
    """For each fold, which has its share of every class, the model of all other examples, and which these are not (n,).

    Parameters
    ----------
    fit : gives the model of the examples that are marked (n,).
    """
    fold = np.empty(len(labels), np.int64)
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        fold[places] = (np.arange(len(places)) + label) % FOLDS
    for number in np.unique(fold):
        out = fold == number
        if len(np.unique(labels[~out])) >= min(2, len(np.unique(labels))):
            yield fit(~out), out


def asked_unseen(
    fit: Callable[[NDArray[np.bool_]], Model], features: FloatArray, names: NDArray[np.str_], told: FloatArray
) -> Unseen:
    """What the models of the other folds say of every example (n,) that is not the only one of its class.

    Their scores are written to ``told`` (n, C).
    """
    classes, labels, counts = np.unique(names, return_inverse=True, return_counts=True)
    parts, model = [], None
    for model, out in by_folds(fit, labels):
        asked = out & (counts > 1)[labels]
        found = model.class_scores(features[asked])
        scores = np.repeat(found.min(axis=1, keepdims=True), len(classes), 1)  # least for what was not taught
        scores[:, np.searchsorted(classes, model.classes_)] = found
        told[asked] = scores
        parts.append((scores, labels[asked], model.familiarity(features[asked])))
    if model is None or not sum(len(truth) for _, truth, _ in parts):
        return Unseen(np.zeros(0))
    return Unseen.judged(model, *map(np.concatenate, zip(*parts, strict=True)))
