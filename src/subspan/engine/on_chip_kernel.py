"""The Triton kernel of on_chip.py: all steps of one problem.

A problem lies as (samples, classes): the softmax over classes then stays within a warp. The rows of the last group (the
new ones) form a tile of their own, so that padding to powers of two costs little. Under a basis their two components
need one gram matrix besides the whole one, K = K_in + K_out:

    B_in K_in + B_out K_out  =  B_in K - (B_in - B_out) K_out

Matrix products run on tensor cores, which take no float32: every number is split into three bfloat16 terms, which hold
all its digits.
"""

# The language of kernels only looks like Python.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportOperatorIssue=false

import triton
import triton.language as tl


@triton.jit
def _load_rows(base, rows, row_count, samples, n):
    """Rows (rows, n) as a tile (samples, rows), zero outside."""
    inside = (samples[:, None] < n) & (rows[None, :] < row_count)
    return tl.load(base + rows[None, :] * n + samples[:, None], mask=inside, other=0.0)


@triton.jit
def _store_rows(base, tile, rows, row_count, samples, n):
    inside = (samples[:, None] < n) & (rows[None, :] < row_count)
    tl.store(base + rows[None, :] * n + samples[:, None], tile, mask=inside)


@triton.jit
def _load_gram(pointer, samples: tl.constexpr):
    """A gram matrix (samples, samples) of one problem, padded with zeros."""
    sample = tl.arange(0, samples)
    return tl.load(pointer + sample[:, None] * samples + sample[None, :])


@triton.jit
def _upper_half(x):
    """The upper half of a float32's bits as bfloat16: its sign, its exponent and its first eight digits."""
    return (x.to(tl.int32, bitcast=True) >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)


@triton.jit
def _lower_digits(x):
    """What the upper half leaves out, exactly."""
    return x - (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)


@triton.jit
def _product(high, middle, low, x):
    """A gram matrix times x (samples, classes), both as sums of three bfloat16 terms: as exact as in float32.

    Each term of x is made just before its products, so that only one of them takes shared memory at a time.
    """
    kind: tl.constexpr = high.dtype
    rest = _lower_digits(x)
    total = tl.dot(high, _lower_digits(rest).to(kind), input_precision="ieee")
    term = _upper_half(rest).to(kind)
    total = tl.dot(middle, term, total, input_precision="ieee")
    total = tl.dot(high, term, total, input_precision="ieee")
    term = _upper_half(x).to(kind)
    total = tl.dot(low, term, total, input_precision="ieee")
    total = tl.dot(middle, term, total, input_precision="ieee")
    return tl.dot(high, term, total, input_precision="ieee")


@triton.jit
def _total(tile):
    return tl.sum(tl.sum(tile, 1), 0)


@triton.jit
def _of_part(numbers, part, index: tl.constexpr):
    """The number of one part out of those of all."""
    return tl.sum(tl.where(part == index, numbers, 0.0))


# One compilation serves every count and every place in memory that the padded shapes allow.
@triton.jit(
    do_not_specialize=[
        *("n", "old_count", "new_count", "old_stride", "new_stride"),
        *("momentum", "tolerance", "patience", "max_steps"),
    ],
    do_not_specialize_on_alignment=[
        *("new_reference_pointer", "new_delta_pointer", "outside_reference_pointer", "outside_delta_pointer"),
        *("new_frame_pointer", "outside_frame_pointer"),
    ],
)
def descend_one(
    high_pointer, middle_pointer, low_pointer, outside_high_pointer, outside_middle_pointer, outside_low_pointer,
    old_reference_pointer, old_delta_pointer,
    new_reference_pointer, new_delta_pointer,
    outside_reference_pointer, outside_delta_pointer,
    old_frame_pointer, new_frame_pointer, outside_frame_pointer,
    delta_pointer, reference_pointer, steps_pointer, loss_pointer,
    label_pointer, weight_pointer, decay_pointer, rate_pointer, strength_pointer, is_norm_pointer,
    delta_delta_pointer, delta_reference_pointer, reference_reference_pointer,
    n, old_count, new_count, old_stride, new_stride,
    momentum, tolerance, patience, max_steps,
    samples: tl.constexpr, old_classes: tl.constexpr, new_classes: tl.constexpr, parts: tl.constexpr,
    old_delta: tl.constexpr, split: tl.constexpr, new_held: tl.constexpr,
):  # fmt: skip
    """All steps of one problem."""
    problem = tl.program_id(0).to(tl.int64)
    sample = tl.arange(0, samples)
    old_class = tl.arange(0, old_classes)
    new_class = tl.arange(0, new_classes)
    size: tl.constexpr = samples * samples
    # What a variant of the kernel does not use, the compiler drops.
    high = _load_gram(high_pointer + problem * size, samples)
    middle = _load_gram(middle_pointer + problem * size, samples)
    low = _load_gram(low_pointer + problem * size, samples)
    outside_high = _load_gram(outside_high_pointer + problem * size, samples)
    outside_middle = _load_gram(outside_middle_pointer + problem * size, samples)
    outside_low = _load_gram(outside_low_pointer + problem * size, samples)
    at_old, at_new = problem * old_stride, problem * new_stride
    old_reference = _load_rows(old_reference_pointer + at_old, old_class, old_count, sample, n)
    old_start = _load_rows(old_delta_pointer + at_old, old_class, old_count, sample, n)
    new_reference = _load_rows(new_reference_pointer + at_new, new_class, new_count, sample, n)
    new_start = _load_rows(new_delta_pointer + at_new, new_class, new_count, sample, n)
    outside_reference = _load_rows(outside_reference_pointer + at_new, new_class, new_count, sample, n)
    outside_start = _load_rows(outside_delta_pointer + at_new, new_class, new_count, sample, n)
    label = tl.load(label_pointer + problem * n + sample, mask=sample < n, other=-1)
    weight = tl.load(weight_pointer + problem * n + sample, mask=sample < n, other=0.0)
    decay = tl.load(decay_pointer + problem)
    rate = tl.load(rate_pointer + problem)

    # Numbers by part lie in vectors: the old rows, the new ones or their share inside, that outside.
    part = tl.arange(0, 4)
    is_part = part < parts
    at_part = problem * parts + part
    strength = tl.load(strength_pointer + at_part, mask=is_part, other=0.0)
    is_norm = tl.load(is_norm_pointer + part, mask=is_part, other=0) != 0
    delta_delta = tl.load(delta_delta_pointer + at_part, mask=is_part, other=0.0)
    delta_reference = tl.load(delta_reference_pointer + at_part, mask=is_part, other=0.0)
    reference_reference = tl.load(reference_reference_pointer + at_part, mask=is_part, other=0.0)
    new_part: tl.constexpr = 1
    held_part: tl.constexpr = 2 if split else 1  # a basis leaves the share inside free
    s = tl.full((4,), 1.0, tl.float32)
    u = tl.zeros((4,), tl.float32)
    s_speed = tl.zeros((4,), tl.float32)
    u_speed = tl.zeros((4,), tl.float32)

    old = tl.zeros((samples, old_classes), tl.float32)
    old_speed = tl.zeros((samples, old_classes), tl.float32)
    new = tl.zeros((samples, new_classes), tl.float32)  # all of the new rows' share, or that inside a basis
    new_speed = tl.zeros((samples, new_classes), tl.float32)
    outside = tl.zeros((samples, new_classes), tl.float32)
    outside_speed = tl.zeros((samples, new_classes), tl.float32)
    zero = rate * 0.0
    before = zero + float("inf")
    step = max_steps * 0
    small = max_steps * 0

    while (step < max_steps) & (small < patience):
        # Adding zero times what the products move keeps these where the products are: else every step moves them there.
        old_reference += zero * old
        new_start += zero * new
        if old_delta:
            old_start += zero * old
        if new_held:
            new_reference += zero * new
        if split:
            outside_start += zero * new
            if new_held:
                outside_reference += zero * new

        # The logits, and by part the products of the frame's share with the whole change.
        product = _product(high, middle, low, new)
        if split:
            of_difference = _product(outside_high, outside_middle, outside_low, new - outside)
            of_outside = _product(outside_high, outside_middle, outside_low, outside)
            product -= of_difference
            scalar = _of_part(s, part, held_part) * outside_start
            new_logits = product + _of_part(s, part, new_part) * new_start
            if new_held:
                scalar += _of_part(u, part, held_part) * outside_reference
                new_logits += (1 + _of_part(u, part, new_part)) * new_reference + outside_reference
            share = outside * (of_outside + 2 * scalar)
        else:
            scalar = _of_part(s, part, held_part) * new_start
            new_logits = product
            if new_held:
                scalar += _of_part(u, part, held_part) * new_reference
                new_logits += new_reference
            share = new * (product + 2 * scalar)
        cross = tl.where(part == held_part, _total(share), 0.0)
        new_logits = tl.where(new_class[None, :] < new_count, new_logits + scalar, float("-inf"))
        u_old, s_old = _of_part(u, part, 0), _of_part(s, part, 0)
        scalar = u_old * old_reference
        if old_delta:
            scalar += s_old * old_start
        product = _product(high, middle, low, old)
        share = old * (product + 2 * scalar)
        cross = tl.where(part == 0, _total(share), cross)
        old_logits = tl.where(old_class[None, :] < old_count, old_reference + scalar + product, float("-inf"))

        # The cross-entropy and its gradient by the logits. No loss is minus infinity: asking makes the compiler find
        # out anew whose label a row is, where it would keep all answers in registers that are needed for more.
        here = tl.where(before == float("-inf"), -1, label)
        old_label = tl.where(here < old_count, here, -1)[:, None] == old_class[None, :]
        new_label = (here - old_count)[:, None] == new_class[None, :]
        top = tl.maximum(tl.max(old_logits, 1), tl.max(new_logits, 1))
        of_label = tl.sum(tl.where(old_label, old_logits, 0.0), 1) + tl.sum(tl.where(new_label, new_logits, 0.0), 1)
        old_gradient = tl.exp(old_logits - top[:, None])
        new_gradient = tl.exp(new_logits - top[:, None])
        total = tl.sum(old_gradient, 1) + tl.sum(new_gradient, 1)
        scale = weight / total
        loss = tl.sum(weight * (top - of_label + tl.log(total)))
        old_gradient = old_gradient * scale[:, None] - tl.where(old_label, weight[:, None], 0.0)
        new_gradient = new_gradient * scale[:, None] - tl.where(new_label, weight[:, None], 0.0)

        # The penalties and one step of SGD with momentum.
        of_scalars = s * (s * delta_delta + 2 * u * delta_reference) + u * u * reference_reference
        square = tl.maximum(of_scalars + cross, 0.0)
        norm = tl.sqrt(square)
        loss += tl.sum(tl.where(is_norm, norm, square) * strength)
        of_norm = tl.where(norm > 0, strength / tl.maximum(norm, 1.1754944e-38), 0.0)
        hold = decay + tl.where(is_norm, of_norm, 2 * strength)
        s_speed = momentum * s_speed + hold * s
        u_speed = momentum * u_speed + (hold * u + decay)
        s -= rate * s_speed
        u -= rate * u_speed
        hold_old, hold_new = _of_part(hold, part, 0), _of_part(hold, part, new_part)
        old_speed = momentum * old_speed + old_gradient + hold_old * old
        old -= rate * old_speed
        new_speed = momentum * new_speed + new_gradient + hold_new * new
        new -= rate * new_speed
        if split:
            outside_speed = momentum * outside_speed + new_gradient + _of_part(hold, part, held_part) * outside
            outside -= rate * outside_speed

        small = tl.where(tl.abs(loss - before) < tolerance, small + 1, 0)  # never on the first step: inf before it
        before = loss
        step += 1

    # Likewise: places computed anew now need no registers during the steps.
    n_after = tl.where(before == float("-inf"), 0, n)
    _store_rows(old_frame_pointer + at_old, old, old_class, old_count, sample, n_after)
    _store_rows(new_frame_pointer + at_new, new, new_class, new_count, sample, n_after)
    if split:
        _store_rows(outside_frame_pointer + at_new, outside, new_class, new_count, sample, n_after)
    tl.store(delta_pointer + at_part, s, mask=is_part)
    tl.store(reference_pointer + at_part, u, mask=is_part)
    tl.store(steps_pointer + problem, step)
    tl.store(loss_pointer + problem, before)
