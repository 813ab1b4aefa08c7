"""The oracle: PAPER-NOTES section 1 written down plainly, on full weights, one step at a time, with autograd."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class NaiveSession:
    """One session on full weights. Old rows come in up to two groups, base and earlier novel."""

    support: Tensor  # support and base memory (n1, d)
    support_labels: Tensor
    memory: Tensor | None  # earlier novel memory (n2, d)
    memory_labels: Tensor | None
    base_start: Tensor
    base_reference: Tensor
    novel_start: Tensor | None  # earlier novel rows
    novel_reference: Tensor | None
    new_start: Tensor
    regularizer: str  # none, subspace, target
    projector: Tensor | None = None
    target: Tensor | None = None
    gamma: float = 0.0
    beta_base: float = 0.2
    beta_novel: float = 0.1
    old_penalty: str = "norm"
    weight_decay: float = 5e-4
    bias: bool = False

    def loss(self, base: Tensor, novel: Tensor | None, new: Tensor) -> Tensor:
        """Everything but weight decay."""
        rows = torch.cat([r for r in (base, novel, new) if r is not None])
        value = torch.nn.functional.cross_entropy(self.support @ rows.T, self.support_labels)
        if self.memory is not None:
            value = value + torch.nn.functional.cross_entropy(self.memory @ rows.T, self.memory_labels)
        value = value + self.beta_base * self._old(base - self.base_reference)
        if novel is not None:
            value = value + self.beta_novel * self._old(novel - self.novel_reference)
        if self.regularizer == "subspace":
            value = value + self.gamma * ((new - new @ self.projector) ** 2).sum()  # the projector is symmetric
        elif self.regularizer == "target":
            value = value + self.gamma * ((new - self.target) ** 2).sum()
        return value

    def objective(self, base: Tensor, novel: Tensor | None, new: Tensor) -> Tensor:
        squares = sum((r**2).sum() for r in (base, novel, new) if r is not None)
        return self.loss(base, novel, new) + self.weight_decay / 2 * squares

    def _old(self, change: Tensor) -> Tensor:
        if self.old_penalty == "squared":
            return (change**2).sum()
        return change.norm() if bool((change != 0).any()) else (change * 0).sum()  # subgradient 0 at 0

    def start(self) -> list[Tensor]:
        return [
            r.clone().requires_grad_() for r in (self.base_start, self.novel_start, self.new_start) if r is not None
        ]

    def evaluate(self, rows: list[Tensor], function) -> Tensor:
        return function(rows[0], rows[1], rows[2]) if len(rows) == 3 else function(rows[0], None, rows[1])


def naive_sgd(
    session: NaiveSession, *, lr=0.002, momentum=0.9, max_steps=1000, tolerance=1e-4, patience=10, fixed_steps=None
):
    """The paper's loop: torch.optim.SGD, the loss taken before each step, ten small changes end it."""
    rows = session.start()
    optimizer = torch.optim.SGD(rows, lr=lr, momentum=momentum, weight_decay=session.weight_decay)
    previous, small, steps = None, 0, 0
    for _ in range(fixed_steps or max_steps):
        steps += 1
        optimizer.zero_grad()
        loss = session.evaluate(rows, session.loss)
        loss.backward()
        if previous is not None:
            small = small + 1 if abs(loss.item() - previous) < tolerance else 0
        previous = loss.item()
        optimizer.step()
        if fixed_steps is None and small == patience:
            break
    return torch.cat([r.detach() for r in rows]), steps
