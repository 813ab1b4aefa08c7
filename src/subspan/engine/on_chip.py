"""Descent with every episode on chip: one Triton program takes all steps of one problem without leaving its processor.

The batched PyTorch path of sgd.py reads and writes every coordinate of every problem at each step. Here the coordinates
and velocities of a problem stay in registers and its gram matrix in shared memory, from the first step to the last;
each program ends when its own problem stops. The arithmetic is that of `sgd.descend`, the oracle it is tested against.

This file says which problems fit and lays them out; the kernel is in on_chip_kernel.py. Both need Triton.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from subspan.engine.on_chip_kernel import descend_one
from subspan.engine.span import Component, Coordinates, Span

if TYPE_CHECKING:
    from subspan.engine.sgd import SgdOptions

LEAST_SIDE = 16  # of a tile

# Where it was seen to be right and to win at least sixfold (benchmarks/on_chip.py). Another release of PyTorch brings
# another compiler, other sides make another program, and not every program that came out was sound.
MEASURED_ON = 9  # first number of the compute capability: Hopper
MEASURED_WITH = "2.11."  # release of PyTorch
MEASURED_SIDES = ((32, 64, 16), (128, 64, 16))  # padded numbers of examples, old rows and new ones


def takes(span: Span) -> bool:
    """Whether the kernel takes these problems and was seen to be faster than PyTorch's operations where they are."""
    old, new = _row_counts(span)
    return (
        fits(span)
        and torch.cuda.get_device_capability(span.labels.device)[0] == MEASURED_ON
        and torch.__version__.startswith(MEASURED_WITH)
        and (_side(span.labels.shape[1]), _side(old), _side(new)) in MEASURED_SIDES
    )


def fits(span: Span) -> bool:
    """Whether these are float32 problems of one group of old rows and one of new ones, with gram matrices."""
    first, *split = span.components  # a group under a basis, which must be the last, has two components
    return (
        len(split) in (0, 2)
        and len(first.counts) + len(split) // 2 == 2
        and all(component.gram is not None for component in span.components)
        and span.weight_decay.dtype == torch.float32
        and span.reference_logits.shape[1] == sum(_row_counts(span))  # no class stands still
    )


def descend(span: Span, options: "SgdOptions", warps: int | None = None) -> tuple[Coordinates, Tensor, Tensor]:
    """All steps of all problems, as `sgd.descend` takes them; for problems that it `fits`."""
    batch, n = span.labels.shape
    old_count, new_count = _row_counts(span)
    split = len(span.components) > 1
    first, new, outside = span.components if split else (span.components[0],) * 3
    result = span.start()
    old_frame, new_frame, outside_frame = result.frame if split else (result.frame[0],) * 3
    new_rows = slice(None) if split else slice(old_count, None)
    steps = torch.zeros(batch, dtype=torch.int64, device=span.labels.device)
    loss = torch.full_like(span.weight_decay, torch.inf)
    rate = torch.as_tensor(options.learning_rate, dtype=loss.dtype, device=loss.device).expand(batch)
    gram = _gram_terms(first)
    descend_one[(batch,)](
        *gram,
        *(_gram_terms(outside) if split else gram),
        first.reference_dual,
        _delta_dual(first),
        new.reference_dual[:, new_rows],
        _delta_dual(new)[:, new_rows],
        outside.reference_dual[:, new_rows],
        _delta_dual(outside)[:, new_rows],
        old_frame,
        new_frame[:, new_rows],
        outside_frame[:, new_rows],
        result.delta,
        result.reference,
        steps,
        loss,
        span.labels.to(torch.int32).contiguous(),
        span.sample_weight.contiguous(),
        span.weight_decay.contiguous(),
        rate.contiguous(),
        span.strength.contiguous(),
        span.is_norm.to(torch.int32),
        span.delta_delta.contiguous(),
        span.delta_reference.contiguous(),
        span.reference_reference.contiguous(),
        n,
        old_count,
        new_count,
        first.reference_dual.stride(0),
        new.reference_dual.stride(0),
        options.momentum,
        options.tolerance,
        options.patience,
        options.max_steps,
        samples=_side(n),
        old_classes=_side(old_count),
        new_classes=_side(new_count),
        parts=span.strength.shape[1],
        old_delta=span.parts[0].delta is not None,
        split=split,
        new_held=any(part.reference is not None for part in span.parts[1:]),
        num_warps=warps or (8 if n > 64 else 4),  # pyright: ignore[reportCallIssue]
    )
    return result, steps, loss


def _row_counts(span: Span) -> tuple[int, int]:
    """How many old and how many new rows there are."""
    last = span.components[-1]
    return last.rows[1] - last.counts[-1], last.counts[-1]


def _gram_terms(component: Component) -> tuple[Tensor, Tensor, Tensor]:
    """A component's gram matrix as a sum of three bfloat16 ones (E, side, side), the largest first.

    Without a GPU they are the same numbers in float32: Triton's interpreter cannot multiply bfloat16.
    """
    assert component.gram is not None
    missing = _side(component.gram.shape[-1]) - component.gram.shape[-1]
    rest = torch.nn.functional.pad(component.gram, (0, missing, 0, missing))
    terms = []
    for _ in range(3):
        term = rest.to(torch.bfloat16)
        terms.append(term if term.is_cuda else term.float())
        rest = rest - term
    return terms[0], terms[1], terms[2]


def _delta_dual(component: Component) -> Tensor:
    """Where every row starts at its reference there is none: zeros."""
    return torch.zeros_like(component.reference_dual) if component.delta_dual is None else component.delta_dual


def _side(count: int) -> int:
    return max(LEAST_SIDE, 1 << (count - 1).bit_length())
