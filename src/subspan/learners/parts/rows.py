"""What most learners share: one row for each class, of as many weights as they like."""

from abc import abstractmethod
from collections.abc import Sequence

from subspan.arrays import Array, functions_of, is_tensor
from subspan.engine.contract import Base, Learner, Session, State


class RowLearner(Learner):
    """A learner whose state is a row for each class, and what it keeps beside them."""

    per_class: tuple[str, ...] = ("rows", "references")  # arrays (*batch, C, ...) with an entry for each class

    def base_rows(self, base: Base) -> Array:
        """The rows (C0, w) of session 0."""
        return base.rows

    def start(self, base: Base) -> State:
        rows = self.base_rows(base)
        return State(base, {"rows": rows, "references": rows} if self.moves_old_rows else {"rows": rows})

    @abstractmethod
    def learn(self, state: State, session: Session) -> State: ...

    def scores(self, state: State, queries: Array) -> Array:
        return queries @ state.rows.mT

    def forget(self, state: State, base: Base, places: Sequence[int]) -> State:
        kept = [c for c in range(state.rows.shape[-2]) if c not in set(places)]
        arrays = {
            name: array[..., kept, :] if name in self.per_class else array for name, array in state.arrays.items()
        }
        return State(base, arrays)


def with_places(rows: Array, session: Session) -> Array:
    """A copy of rows (*batch, C, w) with rows of zeros for the new classes of a session."""
    if not session.new:
        return rows.clone() if is_tensor(rows) else rows.copy()
    functions, shape = functions_of(rows), (*rows.shape[:-2], len(session.classes), rows.shape[-1])
    return functions.concat([rows, functions.zeros(shape, dtype=rows.dtype, device=rows.device)], axis=-2)


def with_learned(state: State, session: Session, learned: Array) -> Array:
    """All rows (*batch, C, w), those of the session replaced; a known class keeps its earlier examples' share."""
    rows, places = with_places(state.rows, session), list(session.classes)
    if session.share is not None:
        learned = rows[..., places, :] + session.share[:, None] * (learned - rows[..., places, :])
    rows[..., places, :] = learned
    return rows
