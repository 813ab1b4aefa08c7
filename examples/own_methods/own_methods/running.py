"""Running: nearest class mean by a covariance that grows with every session."""

from dataclasses import dataclass

import torch
from torch import Tensor

from subspan.engine.contract import Base, Session, State
from subspan.engine.statistics import class_means
from subspan.learners.parts.rows import RowLearner, with_learned
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class Running(RowLearner):
    """Rows are class means (C, d); beside them the state keeps a scatter matrix (d, d) and how many it was made of."""

    name = "running"
    summary = "class means, told apart by a covariance that every session adds to"
    uses_memory = False
    uses_bias = False
    needs = frozenset({"means"})
    prior: float = option(100.0, "examples that the first guess of the covariance counts for")

    def start(self, base: Base) -> State:
        width = base.means.shape[1]
        guess = self.prior * base.means.var() * torch.eye(width).to(base.means)
        return State(base, {"rows": base.means, "scatter": guess, "seen": base.means.new_tensor([self.prior])})

    def learn(self, state: State, session: Session) -> State:
        own = class_means(session.support, session.labels, session.classes)  # (*batch, K, d)
        places = torch.tensor(session.classes, device=session.labels.device)
        member = (session.labels[..., None] == places).to(own)  # (*batch, n, K)
        rest = session.support - member @ own
        return state.after(
            rows=with_learned(state, session, session.means),
            scatter=state["scatter"] + rest.mT @ rest,
            seen=state["seen"] + rest.shape[-2],
        )

    def scores(self, state: State, queries: Tensor) -> Tensor:
        weights, offsets = state.once("weights", lambda: self.linear(state))  # not for every batch of queries anew
        return queries @ weights.mT - offsets[..., None, :]

    def linear(self, state: State) -> tuple[Tensor, Tensor]:
        """Weights (*batch, C, d) and offsets (*batch, C) of the scores."""
        covariance = state["scatter"] / state["seen"][..., None]
        weights = torch.linalg.solve(covariance, state.rows.mT).mT
        return weights, (weights * state.rows).sum(-1) / 2
