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

from subspan.engine.contract import BaseSession, Head, Memory, Method, Session, Update
from subspan.engine.objective import Problem, RowGroup, Solution, concatenate, mean_weights
from subspan.engine.optimum import optimum
from subspan.engine.sgd import SgdOptions, sgd
from subspan.values import check_options, option


@dataclass(frozen=True)
class Regularizer(Method):
    """A linear layer fine-tuned on the support under R_old and a penalty on new rows (Eq. 3).

    All features share a large mean, by which no base row is far ahead. A new row, learned from the support alone, takes
    it up like a bias and outbids the others; ``without_mean`` (not in the paper) hides that direction from the session,
    the 1 that stands for a bias included. Rows score as ever.
    """

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
    start: Literal["uniform", "zeros"] = option("uniform", "where new rows start")
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
    def novel_group(self, base: BaseSession, start: Tensor, embeddings: Tensor | None) -> RowGroup:
        """The rows (*batch, K, d) of the session with their penalty R_new."""

    def learn(self, base: BaseSession, head: Head, session: Session) -> Update:
        problem, order = self.problem(base, head, session)
        return _in_class_order(self._solve(problem), order)

    def learn_together(self, sessions: Sequence[tuple[BaseSession, Head, Session]]) -> list[Update]:
        """Batched sessions of one shape are solved as one batch."""
        problems, orders = zip(*(self.problem(*session) for session in sessions), strict=True)
        if len({p.features.shape[1:] for p in problems}) > 1:
            return super().learn_together(sessions)
        whole = self._solve(concatenate(problems))
        counts = [p.features.shape[0] for p in problems]
        pieces = zip(*(t.split(counts) for t in (whole.rows, whole.steps, whole.loss)), strict=True)
        return [_in_class_order(Solution(*piece), order) for piece, order in zip(pieces, orders, strict=True)]

    def _solve(self, problem: Problem) -> Solution:
        if self.solver == "optimum":
            return optimum(problem)
        options = SgdOptions(self.learning_rate, self.momentum, self.max_steps, self.tolerance, self.patience)
        return sgd(problem, options)

    def problem(self, base: BaseSession, head: Head, session: Session) -> tuple[Problem, Tensor]:
        """The session as a problem, and the class (C,) of each of its rows."""
        # A known base class that gets more examples stays among the base rows: R_old holds it, its labels move it.
        learning = [c for c in head.learning if head.new or c >= head.base_count]
        chosen_rows = set(learning)
        old = [c for c in range(head.rows.shape[-2]) if c not in chosen_rows]
        base_old = [c for c in old if c < head.base_count]
        novel_old = [c for c in old if c >= head.base_count]
        groups = []
        for classes, beta in ((base_old, self.beta_base), (novel_old, self.beta_novel)):
            if classes:
                start = _rows(head.rows, classes)
                same = head.references is head.rows
                reference = start if same else _rows(head.references, classes)
                groups.append(RowGroup(start, reference, self.old_penalty, beta))
        if learning:
            start = self._start(head, session, learning)
            chosen = [head.learning.index(c) for c in learning]
            embeddings = None if session.embeddings is None else session.embeddings[..., chosen, :]
            groups.append(self.novel_group(base, start, embeddings))
        order = torch.tensor(base_old + novel_old + learning, device=head.rows.device)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)

        first = [Memory(session.support, session.labels), *([session.base_memory] if session.base_memory else [])]
        second = [session.novel_memory] if session.novel_memory else []
        features = torch.cat([m.features for m in first + second], dim=-2)
        if self.without_mean:
            assert base.center is not None
            features = without_direction(features, base.center)
        labels = place[torch.cat([m.labels for m in first + second], dim=-1)]
        counts = [sum(m.features.shape[-2] for m in part) for part in (first, second)]
        weights = mean_weights(counts[0], counts[1], features).expand(features.shape[:-1])
        return Problem(features, labels, weights, groups, self.weight_decay), order

    def _start(self, head: Head, session: Session, learning: list[int]) -> Tensor:
        start = _rows(head.rows, learning)
        if not head.new or self.start == "zeros":
            return start
        noise = _starts(session.seeds, start.shape[-2:], start.dtype, start.device)
        return noise if start.ndim == 3 else noise[0]


@dataclass(frozen=True)
class LanguageRegularizer(Regularizer):
    """New rows are pulled to static targets that come from the embeddings of their classes."""

    @property
    def needs(self) -> frozenset[str]:
        return super().needs | {"embeddings"}

    def novel_group(self, base: BaseSession, start: Tensor, embeddings: Tensor | None) -> RowGroup:
        return RowGroup(start, self.targets(base, start, embeddings), "squared", self.gamma)


def without_direction(features: Tensor, direction: Tensor) -> Tensor:
    """Features (..., d) less their part along a direction (d,) of any length; zero is no direction.

    >>> without_direction(torch.tensor([[3.0, 4.0]]), torch.tensor([0.0, 2.0]))
    tensor([[3., 0.]])
    """
    squared = (direction @ direction).clamp_min(torch.finfo(direction.dtype).tiny)
    return features - (features @ direction / squared)[..., None] * direction


def _in_class_order(solution: Solution, order: Tensor) -> Update:
    rows = torch.empty_like(solution.rows)
    rows[..., order, :] = solution.rows
    return Update(rows, solution.steps, solution.loss)


@lru_cache(maxsize=1)  # all cells of a table begin their episodes alike
def _starts(seeds: tuple[int, ...], shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """New rows (E, K, d) of every episode."""
    return torch.stack([_uniform(seed, shape) for seed in seeds]).to(device, dtype)


def _uniform(seed: int, shape: torch.Size) -> Tensor:
    """New rows (K, d) uniform in +-1/sqrt(d), the same for every device and dtype they go to."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1) / shape[1] ** 0.5


def _rows(rows: Tensor, classes: list[int]) -> Tensor:
    first, last = classes[0], classes[-1]
    if last - first + 1 == len(classes):
        return rows[..., first : last + 1, :]  # a view: no copy of 100,000 rows
    return rows[..., classes, :]
