"""What the training-free methods share: a novel row is a function of its class's mean feature, cosines score."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.rows import RowLearner, with_places
from subspan.values import option


@dataclass(frozen=True)
class CosineLearner(RowLearner):
    """Rows of unit length, computed without training; scores are cosines times a scale."""

    uses_memory = False
    uses_bias = False
    scores_apart = True
    scale: float = option(16.0, "factor on the cosines before the softmax of predict_proba")

    @abstractmethod
    def row_of_mean(self, base: Base, mean: Tensor) -> Tensor:
        """The row (..., d) of a class from the mean (..., d) of its features."""

    def center(self, base: Base) -> Tensor | float:
        """What is subtracted from a query (d,) before its cosine is taken."""
        return 0.0

    def represent(self, base: Base, features: Tensor) -> Tensor:
        """Features (..., d) as vectors of unit length, whose products with rows are the cosines."""
        return unit(features - self.center(base))

    def learn(self, state: State, session: Session) -> State:
        places = list(session.classes)
        learned = self.row_of_mean(state.base, session.means)
        rows = with_places(state.rows, session)
        if session.share is not None:
            # A base row may be learned rather than a mean: turn it towards its new examples by their share.
            is_base = torch.tensor(places, device=learned.device) < state.base_count
            new = self.row_of_mean(state.base, class_means(session.support, session.labels, session.classes))
            turned = unit((1 - session.share[:, None]) * rows[..., places, :] + session.share[:, None] * new)
            learned = torch.where(is_base[:, None], turned, learned)
        rows[..., places, :] = learned
        return state.after(rows=rows)

    def scores(self, state: State, queries: Tensor) -> Tensor:
        return self.scale * self.represent(state.base, queries) @ state.rows.mT


def drawn_towards(own: Tensor, known: Tensor, share: float, sharpness: float) -> Tensor:
    """Unit vectors (..., K, d) with a ``share`` of the unit vectors known (C, d) that they resemble, by a softmax.

    >>> drawn_towards(torch.tensor([[1.0, 0.0]]), torch.eye(2), share=0.5, sharpness=0.0)
    tensor([[0.9239, 0.3827]])
    """
    similar = torch.softmax(sharpness * own @ known.mT, dim=-1)
    return unit((1 - share) * own + share * unit(similar @ known))


def unit(vectors: Tensor) -> Tensor:
    """Vectors (..., d) at length one; a zero vector stays zero.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return torch.nn.functional.normalize(vectors, dim=-1)
