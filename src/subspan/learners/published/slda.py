"""SLDA: streaming linear discriminant analysis, running class means and one running covariance."""

from dataclasses import dataclass

import numpy as np

from subspan.arrays import Array
from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means, within_classes
from subspan.learners.parts.rows import with_learned
from subspan.learners.parts.system import System
from subspan.learners.registry import register
from subspan.values import check_options, option


@register
@dataclass(frozen=True)
class Slda(System):
    """Deep streaming linear discriminant analysis.

    Class means m_c and one covariance S within classes run over the examples; all classes are equally likely:

        L = ((1 - e) S + e I)^-1,   score = x^T L m_c - m_c^T L m_c / 2,   e = 1e-4

    Reference: Hayes, Kanan, Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis, CVPR workshops
    2020. Setting: one example after the other, any number of each class, frozen ResNet-18.

    Departures [ours]: S is the exact scatter over the number of examples, where the published update takes the number
    of all examples so far for the class's own, so that order does not matter. Inverse, not pseudo-inverse. From class
    statistics without examples S stays that of the base classes.
    """

    name = "slda"
    summary = "running class means and one running covariance; no training"
    reference = "Hayes and Kanan, CVPR workshops 2020"
    marks = "M; exact sums: ours"
    needs = frozenset({"means", "covariance"})
    arrays = "numpy"
    from_examples = True
    depends_on_scale = True
    shrinkage: float = option(1e-4, "share e of the identity in the covariance")

    def __post_init__(self) -> None:
        check_options(self, shares=("shrinkage",), positive=("shrinkage",))

    def start(self, base: Base) -> State:
        """Rows are means (C, d); of examples also their within-class scatter (d, d) and number (1,) are kept."""
        if base.examples is None:
            return State(base, {"rows": np.asarray(base.means, np.float64)})
        examples, labels = np.asarray(base.examples, np.float64), np.asarray(base.labels)
        rows = class_means(examples, labels, tuple(range(base.class_count)))
        scatter = len(labels) * within_classes(examples, rows, labels)
        return State(base, {"rows": rows, "scatter": scatter, "seen": np.array([float(len(labels))])})

    def learn(self, state: State, session: Session) -> State:
        support, labels = np.asarray(session.support, np.float64), np.asarray(session.labels)
        means = class_means(support, labels, session.classes)
        rows = with_learned(state, session, means)
        if state.get("scatter") is None:
            return state.after(rows=rows)
        scatter = state["scatter"].copy()
        for k, place in enumerate(session.classes):
            own = support[labels == place] - means[k]
            scatter += own.T @ own
            if session.share is not None:  # what the distance of old and new mean adds to the scatter of both together
                apart = means[k] - state.rows[place]
                scatter += len(own) * (1 - float(session.share[k])) * np.outer(apart, apart)
        return state.after(rows=rows, scatter=scatter, seen=state["seen"] + len(labels))

    def scores(self, state: State, queries: Array) -> Array:
        weights, offset = state.once(self, lambda: self._discriminants(state))
        return queries @ weights.mT + offset[..., None, :]

    def _discriminants(self, state: State) -> tuple[Array, Array]:
        """Weights (*batch, C, d) and offsets (*batch, C)."""
        scatter, rows = state.get("scatter"), state.rows
        covariance = state.base.covariance if scatter is None else scatter / state["seen"]
        shrunken = (1 - self.shrinkage) * covariance + self.shrinkage * np.eye(rows.shape[-1])
        weights = rows @ np.linalg.inv(shrunken)
        return weights, -(weights * rows).sum(-1) / 2
