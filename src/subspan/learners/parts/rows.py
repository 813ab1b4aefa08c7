"""What most learners share: one row for each class, of as many weights as they like."""

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from subspan.engine.contract import Base, Learner, Session, State


class RowLearner(Learner):
    """A learner whose state is a row for each class, and what it keeps beside them."""

    per_class: tuple[str, ...] = ("rows", "references")  # arrays (*batch, C, ...) with an entry for each class

    def base_rows(self, base: Base) -> Tensor:
        """The rows (C0, w) of session 0."""
        return base.rows

    def start(self, base: Base) -> State:
        rows = self.base_rows(base)
        return State(base, {"rows": rows, "references": rows} if self.moves_old_rows else {"rows": rows})

    @abstractmethod
    def learn(self, state: State, session: Session) -> State: ...

    def scores(self, state: State, queries: Tensor) -> Tensor:
        return queries @ state.rows.mT

    def forget(self, state: State, base: Base, places: Sequence[int]) -> State:
        kept = [c for c in range(state.rows.shape[-2]) if c not in set(places)]
        arrays = {
            name: array[..., kept, :] if name in self.per_class else array for name, array in state.arrays.items()
        }
        return State(base, arrays)


def with_places(rows: Tensor, session: Session) -> Tensor:
    """A copy of rows (*batch, C, w) with rows of zeros for the new classes of a session."""
    if not session.new:
        return rows.clone()
    extra = rows.new_zeros(*rows.shape[:-2], len(session.classes), rows.shape[-1])
    return torch.cat([rows, extra], dim=-2)


def with_learned(state: State, session: Session, learned: Tensor) -> Tensor:
    """All rows (*batch, C, w), those of the session replaced; a known class keeps its earlier examples' share."""
    rows, places = with_places(state.rows, session), list(session.classes)
    if session.share is not None:
        learned = rows[..., places, :] + session.share[:, None] * (learned - rows[..., places, :])
    rows[..., places, :] = learned
    return rows
