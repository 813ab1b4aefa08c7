"""The objective of one incremental session, stated once for every method and every solver.

With the feature extractor frozen, only the rows eta_c of a linear layer move. A session minimises

    sum_i omega_i CE(eta f_i, y_i)  +  (w / 2) ||eta||^2  +  sum_g R_g(eta_g)

The weights omega hold the two cross-entropy means: 1/n1 for support and base memory, 1/n2 for the memory of earlier
novel classes. Every group of rows g (base, earlier novel, novel) is held by a penalty on its change
x = eta - reference:

    ``none``      0
    ``squared``   strength * ||x||^2      Eq. 4; for novel rows Eq. 5 and Eq. 7
    ``norm``      strength * ||x||        the released code's form of Eq. 4: one Frobenius norm for the whole group

With a ``basis`` the penalty sees only the part of x outside the span of the basis: reference zero and the basis of the
base rows make it the subspace regularizer, whose target P eta moves with eta.

A bias is the row's weight of a constant feature 1 (`append_one`): weight decay and penalties see it like any weight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import torch
from torch import Tensor

Penalty = Literal["none", "norm", "squared"]


@dataclass(frozen=True)
class RowGroup:
    """Rows of one kind and the penalty that holds them. Leading batch dimensions may be absent where shared."""

    start: Tensor  # (*batch, rows, d): values before the first step
    reference: Tensor | None = None  # (*batch, rows, d): where the change is measured from; None is zero
    penalty: Penalty = "none"
    strength: float | Tensor = 0.0  # beta or gamma: one number, or one per problem (*batch,)
    basis: Tensor | None = None  # (*batch, d, rank), orthonormal columns

    def __post_init__(self) -> None:
        if self.penalty not in get_args(Penalty):
            raise ValueError(f"penalty must be one of {', '.join(get_args(Penalty))}; got {self.penalty!r}")
        if bool((torch.as_tensor(self.strength) < 0).any()):
            raise ValueError(f"a penalty's strength must not be negative; got {self.strength}")
        if self.reference is not None and self.reference.shape[-2:] != self.start.shape[-2:]:
            raise ValueError(
                f"reference must have the shape of start {tuple(self.start.shape[-2:])}; "
                f"got {tuple(self.reference.shape[-2:])}"
            )


@dataclass(frozen=True)
class Problem:
    """One incremental session, or a batch of sessions of one shape along a leading dimension."""

    features: Tensor  # (*batch, n, d): support, then memory
    labels: Tensor  # (*batch, n): row of the class, counted through the groups in order
    sample_weight: Tensor  # (*batch, n): omega; 0 for padding
    groups: Sequence[RowGroup]
    weight_decay: float | Tensor = 0.0  # w: one number, or one per problem (*batch,)
    still: Tensor | None = None  # (*batch, n): `standing_still` of classes beside those of the groups

    def __post_init__(self) -> None:
        if self.still is not None and self.still.shape != self.labels.shape:
            raise ValueError(f"still must have the shape {tuple(self.labels.shape)}; got {tuple(self.still.shape)}")
        if self.features.ndim not in (2, 3):
            raise ValueError(f"features must be (n, d) or (batch, n, d); got shape {tuple(self.features.shape)}")
        if self.labels.shape != self.features.shape[:-1] or self.sample_weight.shape != self.features.shape[:-1]:
            raise ValueError(
                f"labels and sample_weight must have the shape {tuple(self.features.shape[:-1])}; "
                f"got {tuple(self.labels.shape)} and {tuple(self.sample_weight.shape)}"
            )
        if bool((torch.as_tensor(self.weight_decay) < 0).any()):
            raise ValueError(f"weight_decay must not be negative; got {self.weight_decay}")


@dataclass(frozen=True)
class Solution:
    """What a solver found."""

    rows: Tensor  # (*batch, C, d)
    steps: Tensor  # (*batch,): steps taken
    loss: Tensor  # (*batch,): sgd: the loss its stop rule watched last; optimum: the objective at the minimum


@dataclass(frozen=True)
class Share:
    """A group of rows, or its share inside or outside a basis, with features as it meets them; all batched."""

    features: Tensor  # (E, n, d)
    start: Tensor  # (E or 1, rows, d)
    reference: Tensor | None  # (E or 1, rows, d)
    penalty: Penalty
    strength: float | Tensor

    @cached_property
    def delta(self) -> Tensor | None:
        """What the rows start away from their reference, None where that is nothing."""
        if self.reference is None:
            return self.start
        return None if self.reference is self.start else self.start - self.reference


def shares(group: RowGroup, features: Tensor) -> list[Share]:
    """The group itself, or of one with a basis what lies inside, which no penalty sees, and what lies outside."""
    strength = 0.0 if group.penalty == "none" else group.strength
    start = batched(group.start)
    reference = start if group.reference is group.start else group.reference
    reference = None if reference is None else batched(reference)
    if group.basis is None:
        return [Share(features, start, reference, group.penalty, strength)]
    basis = batched(group.basis)
    features_in, start_in = ((vectors @ basis) @ basis.mT for vectors in (features, start))
    reference_in = None if reference is None else (reference @ basis) @ basis.mT
    reference_out = None if reference is None or reference_in is None else reference - reference_in
    return [
        Share(features_in, start_in, reference_in, "none", 0.0),
        Share(features - features_in, start - start_in, reference_out, group.penalty, strength),
    ]


def batched(tensor: Tensor, dims: int = 2) -> Tensor:
    """The tensor with a batch dimension before its own."""
    return tensor if tensor.ndim > dims else tensor[None]


def per_problem(number: float | Tensor, features: Tensor) -> Tensor:
    """One number for all problems, or one for each, as (E,) beside features (E, n, d)."""
    return torch.as_tensor(number, dtype=features.dtype, device=features.device).expand(features.shape[0])


def concatenate(problems: Sequence[Problem]) -> Problem:
    """Batched problems of one shape, (E1, n, d), (E2, n, d) ..., as one batch (E1 + E2 + ..., n, d).

    Bases of different rank are filled up with zero columns, which span nothing.
    """
    if len({(p.features.shape[1:], p.still is None, tuple(_layout(g) for g in p.groups)) for p in problems}) > 1:
        raise ValueError("problems of one batch must have the same shapes and kinds of groups")
    like = problems[0].features
    counts = [p.features.shape[0] for p in problems]

    def numbers(values: Sequence[float | Tensor]) -> Tensor:
        pairs = zip(values, counts, strict=True)
        return torch.cat([torch.as_tensor(v, dtype=like.dtype, device=like.device).expand(c) for v, c in pairs])

    def arrays(values: Sequence[Tensor]) -> Tensor:
        return torch.cat([v.expand(c, -1, -1) for v, c in zip(values, counts, strict=True)])

    groups = []
    for members in zip(*(p.groups for p in problems), strict=True):
        start = arrays([g.start for g in members])
        references = [g.reference for g in members if g.reference is not None]
        held = all(g.reference is g.start for g in members)
        bases = [g.basis for g in members if g.basis is not None]
        rank = max((b.shape[-1] for b in bases), default=0)
        groups.append(
            RowGroup(
                start,
                start if held else arrays(references) if references else None,
                members[0].penalty,
                numbers([g.strength for g in members]),
                arrays([torch.nn.functional.pad(b, (0, rank - b.shape[-1])) for b in bases]) if bases else None,
            )
        )
    return Problem(
        torch.cat([p.features for p in problems]),
        torch.cat([p.labels for p in problems]),
        torch.cat([p.sample_weight for p in problems]),
        groups,
        numbers([p.weight_decay for p in problems]),
        None if problems[0].still is None else torch.cat([p.still for p in problems if p.still is not None]),
    )


def _layout(group: RowGroup) -> tuple:
    return group.start.shape[-2:], group.penalty, group.reference is None, group.basis is None


def mean_weights(first: int, second: int, like: Tensor) -> Tensor:
    """The weights (n,) of a mean over the first rows plus a mean over the second ones.

    >>> mean_weights(2, 1, torch.zeros(1))
    tensor([0.5000, 0.5000, 1.0000])
    """
    return torch.cat([like.new_full((first,), 1 / max(first, 1)), like.new_full((second,), 1 / max(second, 1))])


def standing_still(features: Tensor, rows: Tensor) -> Tensor:
    """What classes that no example is of, with rows (*batch, C, d) that never move, are to examples (*batch, n, d).

    In the softmax of an example they count by the sum of the exponentials of their logits: its logarithm (*batch, n) is
    the logit of one class in place of them all.

    >>> standing_still(torch.ones(1, 1), torch.tensor([[2.0], [2.0]])).exp() / torch.tensor(2.0).exp()
    tensor([2.])
    """
    return torch.logsumexp(features @ rows.mT, dim=-1)
