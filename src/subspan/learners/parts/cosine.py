"""What the training-free methods share: a novel row is a function of its class's mean feature, cosines score."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.contract import BaseSession, Head, Method, Session, Update, class_means
from subspan.values import option


@dataclass(frozen=True)
class CosineMethod(Method):
    """Rows of unit length, computed without training; scores are cosines times a scale."""

    uses_memory = False
    uses_bias = False
    moves_old_rows = False
    scores_apart = True
    scale: float = option(16.0, "factor on the cosines before the softmax of predict_proba")

    @abstractmethod
    def row_of_mean(self, base: BaseSession, mean: Tensor) -> Tensor:
        """The row (..., d) of a class from the mean (..., d) of its features."""

    def center(self, base: BaseSession) -> Tensor | float:
        """What is subtracted from a query (d,) before its cosine is taken."""
        return 0.0

    def represent(self, base: BaseSession, features: Tensor) -> Tensor:
        """Features (..., d) as vectors of unit length, whose products with rows are the cosines."""
        return unit(features - self.center(base))

    def learn(self, base: BaseSession, head: Head, session: Session) -> Update:
        learning = list(head.learning)
        learned = self.row_of_mean(base, head.means)
        if not head.new and head.share is not None:
            # A base row may be learned rather than a mean: turn it towards its new examples by their share.
            is_base = torch.tensor(learning, device=learned.device) < head.base_count
            new = self.row_of_mean(base, class_means(session.support, session.labels, head.learning))
            turned = unit((1 - head.share[:, None]) * head.rows[..., learning, :] + head.share[:, None] * new)
            learned = torch.where(is_base[:, None], turned, learned)
        rows = head.rows.clone()
        rows[..., learning, :] = learned
        return Update(rows, torch.zeros(rows.shape[:-2], dtype=torch.int64, device=rows.device))

    def scores(self, base: BaseSession, rows: Tensor, queries: Tensor) -> Tensor:
        return self.scale * self.represent(base, queries) @ rows.mT


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
