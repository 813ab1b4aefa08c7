"""What the training-free methods share: a novel row is a function of its class's mean feature, cosines score."""

from dataclasses import dataclass

from subspan.arrays import Array, functions_of
from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.rows import RowLearner, with_places
from subspan.learners.parts.vectors import unit
from subspan.values import option


@dataclass(frozen=True)
class CosineLearner(RowLearner):
    """Rows of unit length, computed without training; scores are cosines times a scale.

    What is here works on NumPy arrays, and on tensors for a learner that says ``arrays = "torch"``.
    """

    arrays = "numpy"
    uses_memory = False
    uses_bias = False
    scores_apart = True
    scale: float = option(16.0, "factor on the cosines before the softmax of predict_proba")

    def base_rows(self, base: Base) -> Array:
        return unit(base.rows)

    def row_of_mean(self, base: Base, mean: Array) -> Array:
        """The row (..., d) of a class from the mean (..., d) of its features."""
        return self.represent(base, mean)

    def center(self, base: Base) -> Array | float:
        """What is subtracted from a query (d,) before its cosine is taken."""
        return 0.0

    def represent(self, base: Base, features: Array) -> Array:
        """Features (..., d) as vectors of unit length, whose products with rows are the cosines."""
        return unit(features - self.center(base))

    def learn(self, state: State, session: Session) -> State:
        places = list(session.classes)
        learned = self.row_of_mean(state.base, session.means)
        rows = with_places(state.rows, session)
        if session.share is not None:
            # A base row may be learned rather than a mean: turn it towards its new examples by their share.
            functions = functions_of(learned)
            is_base = functions.asarray(places, device=learned.device) < state.base_count
            new = self.row_of_mean(state.base, class_means(session.support, session.labels, session.classes))
            turned = unit((1 - session.share[:, None]) * rows[..., places, :] + session.share[:, None] * new)
            learned = functions.where(is_base[:, None], turned, learned)
        rows[..., places, :] = learned
        return state.after(rows=rows)

    def scores(self, state: State, queries: Array) -> Array:
        return self.scale * self.represent(state.base, queries) @ state.rows.mT
