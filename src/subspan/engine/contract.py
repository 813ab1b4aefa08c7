"""What every method is given and what it answers: the records of a session, and the class a method derives from.

All row arrays may carry one leading batch dimension (draws, episodes), written ``(*batch, ...)``; what a batch shares
has none.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from subspan.values import check_options as check_options
from subspan.values import option as option

State = Mapping[str, Tensor]  # what a method keeps beside its rows, by name, each (*batch, ...)


@dataclass(frozen=True)
class BaseSession:
    """What a method may know of session 0."""

    rows: Tensor  # (C0, d): as learned
    means: Tensor | None = None  # (C0, d): class means of training features
    embeddings: Tensor | None = None  # (C0, e): of class names or descriptions
    origin: Tensor | None = None  # (d,): the centre, where classes have been removed since
    covariance: Tensor | None = None  # (d, d): of training features within their classes

    @property
    def center(self) -> Tensor | None:
        """Mean of the base training features (d,), classes counted alike."""
        if self.origin is not None:
            return self.origin
        return None if self.means is None else self.means.mean(0)

    def to(self, other: Tensor) -> "BaseSession":
        """The same on another tensor's device, in its type."""
        moved: dict[str, Any] = {name: None if t is None else t.to(other) for name, t in vars(self).items()}
        return BaseSession(**moved)


@dataclass(frozen=True)
class Memory:
    """Stored examples of earlier classes."""

    features: Tensor  # (*batch, m, d)
    labels: Tensor  # (*batch, m): row of the class


@dataclass(frozen=True)
class Session:
    """What arrives in one incremental session t > 0."""

    support: Tensor  # (*batch, n, d)
    labels: Tensor  # (*batch, n): row of the class
    base_memory: Memory | None = None
    novel_memory: Memory | None = None
    embeddings: Tensor | None = None  # (K, e): of the classes this session learns, in the order of their rows
    seeds: tuple[int, ...] = (0,)  # one per problem of the batch


@dataclass(frozen=True)
class Head:
    """The rows before a session. ``learning`` are the rows the session is about: new ones, or known ones it extends."""

    rows: Tensor  # (*batch, C, d), rows to be learned included; a new class has zeros
    references: Tensor  # (*batch, C, d): base rows after session 0, others at the end of the session that learned them;
    #                     the rows themselves for a method that does not move old rows
    base_count: int
    learning: tuple[int, ...]
    means: Tensor  # (*batch, K, d): mean feature of the classes in `learning`, over all their examples
    new: bool = True  # False: the classes are known and get more examples
    share: Tensor | None = None  # (K,): of known classes, the new examples' share among all of the class
    state: State | None = None  # what the session before left; None after session 0


@dataclass(frozen=True)
class Update:
    """The rows after a session."""

    rows: Tensor  # (*batch, C, d)
    steps: Tensor  # (*batch,): 0 without training
    loss: Tensor | None = None
    state: State | None = None  # what the next session and all scores are to be given back


class Method(ABC):
    """How the rows of novel classes come about, and how rows score a query.

    A method is a frozen dataclass; its fields are its options.
    """

    kind: ClassVar[str] = "method"  # what it is listed under; published ones: "system", "network-system"
    name: ClassVar[str]
    summary: ClassVar[str]
    moving_targets: ClassVar[bool] = False  # targets follow their rows
    uses_memory: ClassVar[bool] = True  # stored examples change what it learns
    uses_bias: ClassVar[bool] = True  # a bias, where the head has one, is the last weight of each row
    moves_old_rows: ClassVar[bool] = True  # and so needs their references
    scores_apart: ClassVar[bool] = False  # a class's scores come from its own row, which later sessions leave alone
    batch_on_cpu: ClassVar[int] = 64  # problems that it solves best at once: what stays in the caches of a core
    keeps_state: ClassVar[bool] = False  # beside its rows; the estimator has no room for it, the protocols have

    @property
    def one_weight_per_feature(self) -> bool:
        """Whether a row has one weight per feature; the estimator has room for no more, the protocols have."""
        return True

    @property
    def command(self) -> str:
        """The command line that runs it where the estimator has no room for what it keeps."""
        return f"subspan bench --method {self.name}"

    @property
    def needs(self) -> frozenset[str]:
        """What of session 0 the method cannot do without: "embeddings", "means", "covariance"."""
        return frozenset()

    def base_rows(self, base: BaseSession) -> Tensor:
        """The rows (C0, d) of session 0."""
        return base.rows

    @abstractmethod
    def learn(self, base: BaseSession, head: Head, session: Session) -> Update:
        """Learn one session: the rows of its classes, and what becomes of the others."""

    def learn_together(self, sessions: Sequence[tuple[BaseSession, Head, Session]]) -> list[Update]:
        """Learn several sessions that have nothing to do with one another, at once where that is faster."""
        return [self.learn(*session) for session in sessions]

    def scores(self, base: BaseSession, rows: Tensor, queries: Tensor) -> Tensor:
        """Scores (*batch, q, C) of queries (q, d) by rows (*batch, C, d); softmax over them gives probabilities."""
        return queries @ rows.mT

    def scores_in(self, base: BaseSession, rows: Tensor, queries: Tensor, state: State | None) -> Tensor:
        """Scores (*batch, q, C) in the state that the last session left; None after session 0."""
        return self.scores(base, rows, queries)

    def targets(self, base: BaseSession, rows: Tensor, embeddings: Tensor | None) -> Tensor | None:
        """What novel rows (K, d) are pulled towards (K, d), or None."""
        return None


def within_classes(features: Tensor, means: Tensor, labels: Tensor) -> Tensor:
    """Covariance (d, d) of features (n, d) around the means (C, d) of their classes, labels (n,).

    >>> within_classes(torch.tensor([[0.0, 2.0], [2.0, 2.0]]), torch.tensor([[1.0, 2.0]]), torch.tensor([0, 0]))
    tensor([[1., 0.],
            [0., 0.]])
    """
    centred = features - means[labels]
    return centred.mT @ centred / len(features)


def class_means(support: Tensor, labels: Tensor, rows: tuple[int, ...]) -> Tensor:
    """Mean support feature (*batch, K, d) of each class in ``rows``; support (*batch, n, d), labels (*batch, n).

    >>> class_means(torch.tensor([[0.0, 2.0], [2.0, 2.0], [5.0, 5.0]]), torch.tensor([7, 7, 8]), (7, 8))
    tensor([[1., 2.],
            [5., 5.]])
    """
    chosen = torch.tensor(rows, device=labels.device)
    member = (labels[..., None, :] == chosen[:, None]).to(support)  # (*batch, K, n)
    return (member @ support) / member.sum(-1, keepdim=True)
