"""Margin: new rows are trained by a loss of one's own, with an optimiser of PyTorch."""

from dataclasses import dataclass

import torch

from subspan.engine.contract import Session, State
from subspan.learners.parts.rows import RowLearner, with_learned
from subspan.learners.registry import register
from subspan.values import option


@register
@dataclass(frozen=True)
class Margin(RowLearner):
    """A support example's own class is to score higher than every other one by a margin; old rows stay."""

    name = "margin"
    summary = "new rows trained by a hinge loss, from centred class means on"
    uses_memory = False
    needs = frozenset({"means"})
    gap: float = option(1.0, "margin between the own class and the best other one")
    rate: float = option(0.001, "Adam's learning rate")
    steps: int = option(20, "Adam's steps in a session")
    clip: float | None = option(None, "longest gradient; none: as long as it is")

    def learn(self, state: State, session: Session) -> State:
        away = session.means - state.base.center  # what all features share would let new classes outbid the others
        start = away / away.norm(dim=-1, keepdim=True).clamp_min(1e-6) * state.base.rows.norm(dim=-1).mean()
        rows, places = with_learned(state, session, start), list(session.classes)
        labels = session.labels[..., None]
        with torch.enable_grad():
            new = rows[..., places, :].clone().requires_grad_()
            optimiser = torch.optim.Adam([new], lr=self.rate)
            for _ in range(self.steps):
                every = rows.index_copy(-2, torch.tensor(places, device=rows.device), new)
                scores = session.support @ every.mT  # (*batch, n, C)
                best_other = scores.scatter(-1, labels, -torch.inf).amax(-1)
                loss = (self.gap - scores.gather(-1, labels)[..., 0] + best_other).relu()
                optimiser.zero_grad()
                loss.mean(-1).sum().backward()  # a sum: the problems of a batch do not touch one another
                if self.clip is not None:
                    torch.nn.utils.clip_grad_norm_([new], self.clip)
                optimiser.step()
        rows[..., places, :] = new.detach()
        return state.after(rows=rows, steps=self.steps)
