"""What the regularizers share: old rows held by R_old, new rows learned by one of the two solvers.

A regularizer differs from the others only in `novel_group`: the penalty R_new on the rows of the session.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from subspan.engine.contract import Base, Memory, Session, State
from subspan.engine.objective import Problem, RowGroup, Solution, concatenate, mean_weights
from subspan.engine.optimum import optimum
from subspan.engine.sgd import SgdOptions, sgd
from subspan.learners.parts.rows import RowLearner, with_places
from subspan.values import check_options, option


@dataclass(frozen=True)
class Regularizer(RowLearner):
    """A linear layer fine-tuned on the support under R_old and a penalty on new rows (Eq. 3).

    All features share a large mean, by which no base row is far ahead. A new row, learned from the support alone, takes
    it up like a bias and outbids the others; ``without_mean`` (not in the paper) hides that direction from the session,
    the 1 that stands for a bias included. Rows score as ever.
    """

    moves_old_rows = True
    depends_on_scale = True
    renamed_options = {"start": "new_rows"}  # noqa: RUF012 (a class attribute)
    gamma: float = option(0.0, "strength of the pull on new rows (R_new)")
    beta_base: float = option(0.2, "strength that holds base rows (R_old)")
    beta_novel: float = option(0.1, "strength that holds the rows of earlier sessions (R_old)")
    weight_decay: float = option(5e-4, "weight decay on all rows")
    old_penalty: Literal["norm", "squared"] = option(
        "norm", "R_old as the released code has it, or as the paper prints it"
    )
    solver: Literal["sgd", "optimum"] = option(
        "sgd", "the paper's iterates, or the exact minimum of the same objective"
    )
    new_rows: Literal["uniform", "zeros"] = option("uniform", "where new rows start")
    without_mean: bool = option(
        False, "learn from features without their part along the mean of the base training features"
    )
    learning_rate: float = option(0.002, "SGD's learning rate")
    momentum: float = option(0.9, "SGD's momentum")
    max_steps: int = option(1000, "SGD's steps at most")
    tolerance: float = option(1e-4, "a change of the loss below this counts as small")
    patience: int = option(10, "so many small changes in a row end a session")

    def __post_init__(self) -> None:
        check_options(self, not_negative=("gamma", "beta_base", "beta_novel", "weight_decay"))

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"means"} if self.without_mean else ())

    @abstractmethod
    def novel_group(self, base: Base, start: Tensor, embeddings: Tensor | None) -> RowGroup:
        """The rows (*batch, K, d) of the session with their penalty R_new."""

    def learn(self, state: State, session: Session) -> State:
        problem, order = self.problem(state, session)
        return self._after(state, session, self._solve(problem), order)

    def learn_together(self, sessions: Sequence[tuple[State, Session]]) -> list[State]:
        """Batched sessions of one shape are solved as one batch."""
        problems, orders = zip(*(self.problem(*session) for session in sessions), strict=True)
        if len({p.features.shape[1:] for p in problems}) > 1:
            return super().learn_together(sessions)
        whole = self._solve(concatenate(problems))
        counts = [p.features.shape[0] for p in problems]
        pieces = zip(*(t.split(counts) for t in (whole.rows, whole.steps, whole.loss)), strict=True)
        solutions = [Solution(*piece) for piece in pieces]
        return [self._after(*s, found, order) for s, found, order in zip(sessions, solutions, orders, strict=True)]

    def _after(self, state: State, session: Session, solution: Solution, order: Tensor) -> State:
        """The state that a solution leaves; R_old holds a novel row where the last session that was about it ended."""
        rows = torch.empty_like(solution.rows)
        rows[..., order, :] = solution.rows
        references = with_places(state["references"], session)
        novel = [c for c in session.classes if c >= state.base_count]
        references[..., novel, :] = rows[..., novel, :]
        return state.after(rows=rows, references=references, steps=solution.steps, loss=solution.loss)

    def _solve(self, problem: Problem) -> Solution:
        if self.solver == "optimum":
            return optimum(problem)
        options = SgdOptions(self.learning_rate, self.momentum, self.max_steps, self.tolerance, self.patience)
        return sgd(problem, options)

    def problem(self, state: State, session: Session) -> tuple[Problem, Tensor]:
        """The session as a problem, and the class (C,) of each of its rows."""
        base, rows = state.base, with_places(state.rows, session)
        # A known base class that gets more examples stays among the base rows: R_old holds it, its labels move it.
        learning = [c for c in session.classes if session.new or c >= state.base_count]
        chosen_rows = set(learning)
        old = [c for c in range(rows.shape[-2]) if c not in chosen_rows]
        base_old = [c for c in old if c < state.base_count]
        novel_old = [c for c in old if c >= state.base_count]
        groups = []
        for classes, beta in ((base_old, self.beta_base), (novel_old, self.beta_novel)):
            if classes:
                start = _rows(rows, classes)
                same = state["references"] is state.rows
                reference = start if same else _rows(state["references"], classes)
                groups.append(RowGroup(start, reference, self.old_penalty, beta))
        if learning:
            start = self._start(rows, session, learning)
            chosen = [session.classes.index(c) for c in learning]
            embeddings = None if session.embeddings is None else session.embeddings[..., chosen, :]
            groups.append(self.novel_group(base, start, embeddings))
        order = torch.tensor(base_old + novel_old + learning, device=rows.device)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)

        first = [Memory(session.support, session.labels), *([session.base_memory] if session.base_memory else [])]
        second = [session.novel_memory] if session.novel_memory else []
        features = torch.cat([m.features for m in first + second], dim=-2)
        if self.without_mean:
            features = without_direction(features, base.center)
        labels = place[torch.cat([m.labels for m in first + second], dim=-1)]
        counts = [sum(m.features.shape[-2] for m in part) for part in (first, second)]
        weights = mean_weights(counts[0], counts[1], features).expand(features.shape[:-1])
        return Problem(features, labels, weights, groups, self.weight_decay), order

    def _start(self, rows: Tensor, session: Session, learning: list[int]) -> Tensor:
        start = _rows(rows, learning)
        if not session.new or self.new_rows == "zeros":
            return start
        noise = _starts(session.seeds, start.shape[-2:], start.dtype, start.device)
        return noise if start.ndim == 3 else noise[0]


@dataclass(frozen=True)
class LanguageRegularizer(Regularizer):
    """New rows are pulled to static targets that come from the embeddings of their classes."""

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | {"embeddings"}

    def novel_group(self, base: Base, start: Tensor, embeddings: Tensor | None) -> RowGroup:
        return RowGroup(start, self.targets(base, start, embeddings), "squared", self.gamma)


def without_direction(features: Tensor, direction: Tensor) -> Tensor:
    """Features (..., d) less their part along a direction (d,) of any length; zero is no direction.

    >>> without_direction(torch.tensor([[3.0, 4.0]]), torch.tensor([0.0, 2.0]))
    tensor([[3., 0.]])
    """
    squared = (direction @ direction).clamp_min(torch.finfo(direction.dtype).tiny)
    return features - (features @ direction / squared)[..., None] * direction


@lru_cache(maxsize=1)  # all cells of a table begin their episodes alike
def _starts(seeds: tuple[int, ...], shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """New rows (E, K, d) of every episode, uniform in +-1/sqrt(d), the same for every device and dtype they go to."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    drawn = torch.stack([torch.rand(shape, generator=generator, dtype=torch.float64) for generator in generators])
    return ((drawn * 2 - 1) / shape[1] ** 0.5).to(device, dtype)


def _rows(rows: Tensor, classes: list[int]) -> Tensor:
    first, last = classes[0], classes[-1]
    if last - first + 1 == len(classes):
        return rows[..., first : last + 1, :]  # a view: no copy of 100,000 rows
    return rows[..., classes, :]
