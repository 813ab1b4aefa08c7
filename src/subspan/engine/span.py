"""Span coordinates: the same iterates as on full weights, with nothing of size d in the loop.

Every gradient of a row is a combination of the n features, of the row itself and of its reference. So a row that starts
at ``start`` stays on

    eta = reference + s * (start - reference) + u * reference + B F

with s and u one number per part and B (rows, n). Written so, the change from the reference is s*delta + u*reference
+ B F with no subtraction of large numbers. A *part* is a group of rows, or its share inside or outside a basis: the two
shares of a group under the subspace penalty are orthogonal and decay apart, so each has coordinates of its own.

The *dual* of a vector is its products with the frame its B refers to. With the features as frame (n < 2d) the dual of a
change is its logits, and one product B K with K = F F^T gives logits and norms alike. With more features than that, the
frame is the identity and B holds plain weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from subspan.engine.objective import Problem, Share, batched, per_problem, shares


@dataclass
class Coordinates:
    """A weight-space vector: s*delta + u*reference per part, plus B times the frame. Not the reference itself."""

    delta: Tensor  # s (E, parts)
    reference: Tensor  # u (E, parts)
    frame: list[Tensor]  # B (E, rows, k), one per component

    def map(self, function) -> "Coordinates":
        return Coordinates(function(self.delta), function(self.reference), [function(b) for b in self.frame])


@dataclass(frozen=True)
class Component:
    """Parts that share one feature component (the features, or their share inside or outside a basis)."""

    rows: tuple[int, int]  # first and last + 1 of the classes
    parts: tuple[int, int]
    counts: tuple[int, ...]  # rows of each part
    features: Tensor  # (E, n, d): the frame, or what B meets where the frame is the identity
    gram: Tensor | None  # (E, n, n): of the features where they are the frame; None where it is the identity
    part_of_row: Tensor  # (rows,): counted within the component
    reference_dual: Tensor  # (E, rows, k): of what u multiplies
    delta_dual: Tensor | None  # (E, rows, k); None where every row starts at its reference

    def spread(self, numbers: Tensor) -> Tensor:
        """Numbers per part (E, parts) as numbers per row (E, rows, 1)."""
        return numbers[..., None] if numbers.shape[-1] == 1 else numbers.index_select(1, self.part_of_row)[..., None]

    def dot(self, first: Tensor, second: Tensor) -> Tensor:
        """Inner products by part (E, parts) of two arrays (E, rows, k)."""
        by_row = (first * second).sum(-1)
        return torch.stack([rows.sum(-1) for rows in by_row.split(self.counts, dim=-1)], dim=-1)

    def scalar_dual(self, delta: Tensor, reference: Tensor) -> Tensor:
        of_reference = self.spread(reference) * self.reference_dual
        return of_reference if self.delta_dual is None else of_reference.addcmul_(self.spread(delta), self.delta_dual)

    def dual(self, scalar_dual: Tensor, frame: Tensor) -> Tensor:
        return scalar_dual + frame if self.gram is None else torch.bmm(frame, self.gram).add_(scalar_dual)

    def logits(self, dual: Tensor) -> Tensor:
        """The logits (E, rows, n) of a vector from its dual."""
        return dual @ self.features.mT if self.gram is None else dual

    def pull(self, gradient: Tensor) -> Tensor:
        """The gradient by the logits (E, rows, n) as frame coordinates (E, rows, k)."""
        return gradient @ self.features if self.gram is None else gradient


@dataclass(frozen=True)
class Span:
    """A batch of E problems in span coordinates."""

    components: tuple[Component, ...]
    parts: tuple[Share, ...]  # of size d: needed before and after the loop only
    labels: Tensor  # (E, n)
    sample_weight: Tensor  # (E, n)
    reference_logits: Tensor  # (E, C, n), with one more class for all that stand still
    weight_decay: Tensor  # (E,)
    strength: Tensor  # (E, parts)
    is_norm: Tensor  # (parts,)
    delta_delta: Tensor  # inner products of delta and reference (E, parts)
    delta_reference: Tensor
    reference_reference: Tensor

    def start(self) -> Coordinates:
        ones = torch.ones_like(self.strength)
        return Coordinates(ones, torch.zeros_like(ones), [torch.zeros_like(c.reference_dual) for c in self.components])

    def duals(self, x: Coordinates) -> tuple[list[Tensor], list[Tensor]]:
        """The duals of x and the share of its scalars in them, per component."""
        scalar, whole = [], []
        for component, frame in zip(self.components, x.frame, strict=True):
            span = slice(*component.parts)
            scalar.append(component.scalar_dual(x.delta[:, span], x.reference[:, span]))
            whole.append(component.dual(scalar[-1], frame))
        return scalar, whole

    def logits(self, duals: list[Tensor]) -> Tensor:
        """Logits (E, C, n) of the rows from the duals of their change."""
        logits = self.reference_logits.clone()
        for component, dual in zip(self.components, duals, strict=True):
            logits[:, slice(*component.rows)] += component.logits(dual)
        return logits

    def square(self, x: Coordinates, scalar: list[Tensor], duals: list[Tensor]) -> Tensor:
        """Squared norms by part (E, parts) of a vector given with its duals."""
        cross = [component.dot(x.frame[i], scalar[i] + duals[i]) for i, component in enumerate(self.components)]
        of_scalars = x.delta * (x.delta * self.delta_delta + x.reference * self.delta_reference) + x.reference * (
            x.delta * self.delta_reference + x.reference * self.reference_reference
        )
        return of_scalars + torch.cat(cross, dim=-1)

    def rows(self, x: Coordinates) -> Tensor:
        """Full weights (E, C, d)."""
        blocks: dict[tuple[int, int], Tensor] = {}
        for component, frame in zip(self.components, x.frame, strict=True):
            change = frame if component.gram is None else frame @ component.features
            first = component.rows[0]
            splits = torch.split(change, list(component.counts), dim=1)
            for index, block in zip(range(*component.parts), splits, strict=True):
                part, key = self.parts[index], (first, first + block.shape[1])
                if part.reference is not None:
                    block = block + part.reference
                    block = block + part.reference * x.reference[:, index, None, None]
                if (delta := part.delta) is not None:
                    block = block + delta * x.delta[:, index, None, None]
                blocks[key] = blocks[key] + block if key in blocks else block
                first = key[1]
        return torch.cat([blocks[key] for key in sorted(blocks)], dim=1)

    def select(self, keep: Tensor) -> "Span":
        """The problems at these indices (without their d-sized parts: for use inside a solver's loop)."""
        components = tuple(
            replace(
                c,
                features=c.features[keep] if c.gram is None else c.features[:0],
                gram=None if c.gram is None else c.gram[keep],
                reference_dual=c.reference_dual[keep],
                delta_dual=None if c.delta_dual is None else c.delta_dual[keep],
            )
            for c in self.components
        )
        tensors = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("components", "parts", "is_norm")
        }
        chosen = {name: tensor[keep] for name, tensor in tensors.items()}
        return replace(self, components=components, parts=(), **chosen)


def to_span(problem: Problem) -> Span:
    """Put a problem, batched (E, n, d) or single (n, d), into span coordinates."""
    features = batched(problem.features)
    together: list[tuple[int, list[Share]]] = []  # the first row of each component, and its parts
    count = 0
    for group in problem.groups:
        for share in shares(group, features):
            if together and together[-1][1][0].features is share.features:
                together[-1][1].append(share)
            else:
                together.append((count, [share]))
        count += group.start.shape[-2]
    components: list[Component] = []
    parts: list[Share] = []
    reference_logits = features.new_zeros((len(features), count, features.shape[-2]))
    for first_row, own in together:
        components.append(_component(own, first_row, len(parts)))
        reference_logits[:, slice(*components[-1].rows)] += components[-1].logits(components[-1].reference_dual)
        parts += own
    if problem.still is not None:
        reference_logits = torch.cat([reference_logits, batched(problem.still, 1).to(features)[:, None]], dim=1)
    deltas, references = [part.delta for part in parts], [part.reference for part in parts]
    return Span(
        components=tuple(components),
        parts=tuple(parts),
        labels=batched(problem.labels, 1),
        sample_weight=batched(problem.sample_weight, 1).to(features),
        reference_logits=reference_logits,
        weight_decay=per_problem(problem.weight_decay, features),
        strength=torch.stack([per_problem(part.strength, features) for part in parts], dim=-1),
        is_norm=torch.tensor([part.penalty == "norm" for part in parts], device=features.device),
        delta_delta=_inner_products(deltas, deltas, features),
        delta_reference=_inner_products(deltas, references, features),
        reference_reference=_inner_products(references, references, features),
    )


def _component(parts: list[Share], first_row: int, first_part: int) -> Component:
    """Of parts that share their features."""
    features, counts = parts[0].features, [part.start.shape[-2] for part in parts]
    batch, n, d = features.shape
    gram = features @ features.mT if n < 2 * d else None

    def duals(vectors: list[Tensor | None]) -> Tensor:
        """Products (E, rows, k) of the parts' vectors with the frame."""
        each = []
        for vector, count in zip(vectors, counts, strict=True):
            if vector is None:
                each.append(features.new_zeros((batch, count, d if gram is None else n)))
            else:
                each.append((vector if gram is None else vector @ features.mT).expand(batch, -1, -1))
        return torch.cat(each, dim=1)

    deltas = [part.delta for part in parts]
    return Component(
        rows=(first_row, first_row + sum(counts)),
        parts=(first_part, first_part + len(counts)),
        counts=tuple(counts),
        features=features,
        gram=gram,
        part_of_row=torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).to(features.device),
        reference_dual=duals([part.reference for part in parts]),
        delta_dual=duals(deltas) if any(delta is not None for delta in deltas) else None,
    )


def _inner_products(first: Sequence[Tensor | None], second: Sequence[Tensor | None], features: Tensor) -> Tensor:
    """Inner products of the parts' vectors: (E, parts)."""
    columns = []
    for a, b in zip(first, second, strict=True):
        products = features.new_zeros(()) if a is None or b is None else (a * b).sum((-2, -1))
        columns.append(products.expand(len(features)))
    return torch.stack(columns, dim=-1)
