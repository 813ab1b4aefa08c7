"""The Triton kernels of fused.py: as few passes as may be over maps that lie with their channels last.

Maps (n, c, h, w) are rows (n h w, c) in memory. A program takes a tile of rows and channels, or, for sums over rows, a
chunk of rows tile by tile. Arithmetic is in float32 whatever the maps are stored in. Means and deviations are made
where they are used, from the sums of values and of their squares, (2, c).
"""

# The language of kernels only looks like Python.
# pyright: reportArgumentType=false, reportAssignmentType=false, reportOperatorIssue=false, reportGeneralTypeIssues=false

import triton
import triton.language as tl


@triton.jit
def _tile(first, rows, columns, channels):
    """Places of a tile's elements behind a base; its first row may lie beyond what 32 bits count."""
    return first.to(tl.int64) * channels + (rows[:, None] * channels + columns[None, :])


@triton.jit
def _of_channels(values, columns, channels):
    """One number for each channel, as a row of a tile."""
    return tl.load(values + columns, mask=columns < channels, other=0.0)[None, :]


@triton.jit
def _mean_and_inverse(totals, columns, channels, count, epsilon):
    """Mean and 1 / deviation (1, c) of the channels."""
    mean = _of_channels(totals, columns, channels) / count
    variance = tl.maximum(_of_channels(totals + channels, columns, channels) / count - mean * mean, 0.0)
    return mean, 1.0 / tl.sqrt(variance + epsilon)


@triton.jit
def _scale_and_shift(totals, weight, bias, columns, channels, count, epsilon):
    """A normalised value is ``value * scale + shift``, (1, c) each."""
    mean, inverse = _mean_and_inverse(totals, columns, channels, count, epsilon)
    scale = _of_channels(weight, columns, channels) * inverse
    return scale, _of_channels(bias, columns, channels) - mean * scale


@triton.jit
def _both_scales_and_shifts(totals, weight, bias, other_weight, other_bias, columns, channels, count, epsilon):
    """The same of two kinds of maps, whose totals (4, c) stand one below the other."""
    scale, shift = _scale_and_shift(totals, weight, bias, columns, channels, count, epsilon)
    totals += 2 * channels
    other_scale, other_shift = _scale_and_shift(totals, other_weight, other_bias, columns, channels, count, epsilon)
    return scale, shift, other_scale, other_shift


@triton.jit
def _backward_factors(totals, weight, by_bias, by_value, columns, channels, count, epsilon):
    """The gradient by a value is ``gradient * scale + value * factor + rest``; the gradient by the weight; (1, c) each.

    ``by_bias`` and ``by_value`` (1, c) are the sums of the gradients by the normalised values, and of these gradients
    times the values.
    """
    mean, inverse = _mean_and_inverse(totals, columns, channels, count, epsilon)
    by_weight = inverse * (by_value - mean * by_bias)
    scale = _of_channels(weight, columns, channels) * inverse
    factor = -scale * inverse * by_weight / count
    return scale, factor, -scale * by_bias / count - factor * mean, by_weight


@triton.jit
def _leaky(value, slope):
    return tl.where(value > 0, value, value * slope)


@triton.jit
def value_sums(maps, sums, stride, count, channels, chunk, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums of values and of squares over each chunk of rows, into (chunks, 2, c) of a stride."""
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, ROWS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    squares = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, chunk, ROWS):
        first = tl.program_id(0) * chunk + start
        inside = ((first + rows)[:, None] < count) & (columns[None, :] < channels)
        value = tl.load(maps + _tile(first, rows, columns, channels), mask=inside, other=0.0).to(tl.float32)
        total += value
        squares += value * value
    out = sums + tl.program_id(0) * stride + columns
    tl.store(out, tl.sum(total, 0), mask=columns < channels)
    tl.store(out + channels, tl.sum(squares, 0), mask=columns < channels)


@triton.jit
def column_sums(sums, out, count, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sums over the rows of (count, columns)."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        inside = (row < count)[:, None] & (column < columns)[None, :]
        total += tl.load(sums + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(out + column, tl.sum(total, 0), mask=column < columns)


@triton.jit
def track(totals, running_mean, running_var, batches, channels, count, momentum, COLUMNS: tl.constexpr):
    """Move running statistics towards those of one more batch."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < channels
    mean = tl.load(totals + columns, mask=inside, other=0.0) / count
    squares = tl.load(totals + channels + columns, mask=inside, other=0.0) / count
    variance = tl.maximum(squares - mean * mean, 0.0) * (count / (count - 1.0))
    old_mean = tl.load(running_mean + columns, mask=inside, other=0.0)
    old_variance = tl.load(running_var + columns, mask=inside, other=0.0)
    tl.store(running_mean + columns, old_mean + momentum * (mean - old_mean), mask=inside)
    tl.store(running_var + columns, old_variance + momentum * (variance - old_variance), mask=inside)
    if tl.program_id(0) == 0:
        tl.store(batches, tl.load(batches) + 1)


@triton.jit
def normalise(
    maps, out, totals, weight, bias, count, channels, epsilon, slope, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """Leaky ReLU of normalised values."""
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, ROWS)
    first = tl.program_id(0) * ROWS
    inside = ((first + rows)[:, None] < count) & (columns[None, :] < channels)
    tile = _tile(first, rows, columns, channels)
    scale, shift = _scale_and_shift(totals, weight, bias, columns, channels, count, epsilon)
    value = tl.load(maps + tile, mask=inside, other=0.0).to(tl.float32) * scale + shift
    tl.store(out + tile, _leaky(value, slope).to(out.dtype.element_ty), mask=inside)


@triton.jit
def gradient_sums(
    gradient,
    maps,
    sums,
    totals,
    weight,
    bias,
    count,
    channels,
    epsilon,
    slope,
    chunk,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sums over each chunk of rows of the gradients by normalised values, and of these times values: (chunks, 2, c)."""
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, ROWS)
    scale, shift = _scale_and_shift(totals, weight, bias, columns, channels, count, epsilon)
    by_bias = tl.zeros((ROWS, COLUMNS), tl.float32)
    by_value = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, chunk, ROWS):
        first = tl.program_id(0) * chunk + start
        inside = ((first + rows)[:, None] < count) & (columns[None, :] < channels)
        tile = _tile(first, rows, columns, channels)
        value = tl.load(maps + tile, mask=inside, other=0.0).to(tl.float32)
        by = tl.load(gradient + tile, mask=inside, other=0.0).to(tl.float32)
        by = tl.where(value * scale + shift > 0, by, by * slope)
        by_bias += by
        by_value += by * value
    out = sums + tl.program_id(0) * 2 * channels + columns
    tl.store(out, tl.sum(by_bias, 0), mask=columns < channels)
    tl.store(out + channels, tl.sum(by_value, 0), mask=columns < channels)


@triton.jit
def normalise_backward(
    gradient,
    maps,
    out,
    by_weight,
    totals,
    gradient_totals,
    weight,
    bias,
    count,
    channels,
    epsilon,
    slope,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The gradients by values, and by the weight (c,)."""
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.arange(0, ROWS)
    first = tl.program_id(0) * ROWS
    inside = ((first + rows)[:, None] < count) & (columns[None, :] < channels)
    tile = _tile(first, rows, columns, channels)
    old_scale, shift = _scale_and_shift(totals, weight, bias, columns, channels, count, epsilon)
    sums = _of_channels(gradient_totals, columns, channels), _of_channels(gradient_totals + channels, columns, channels)
    scale, factor, rest, of_weight = _backward_factors(
        totals, weight, sums[0], sums[1], columns, channels, count, epsilon
    )
    value = tl.load(maps + tile, mask=inside, other=0.0).to(tl.float32)
    by = tl.load(gradient + tile, mask=inside, other=0.0).to(tl.float32)
    by = tl.where(value * old_scale + shift > 0, by, by * slope)
    tl.store(out + tile, (by * scale + value * factor + rest).to(out.dtype.element_ty), mask=inside)
    if tl.program_id(0) == 0:
        tl.store(by_weight + columns[None, :], of_weight, mask=columns[None, :] < channels)


@triton.jit
def _corner(window, height, width, down, right):
    """The row of the upper left place of each window of 2x2, of maps cut into ``down`` x ``right`` of them."""
    image, place = window // (down * right), window % (down * right)
    return (image * height + 2 * (place // right)) * width + 2 * (place % right)


@triton.jit
def _sum_at(maps, others, tile, inside, scale, shift, other_scale, other_shift):
    """A value of either kind of maps, and the sum of the two normalised."""
    value = tl.load(maps + tile, mask=inside, other=0.0).to(tl.float32)
    other = tl.load(others + tile, mask=inside, other=0.0).to(tl.float32)
    return value, other, value * scale + shift + (other * other_scale + other_shift)


@triton.jit
def add_and_pool(
    maps,
    others,
    out,
    totals,
    weight,
    bias,
    other_weight,
    other_bias,
    images,
    height,
    width,
    channels,
    epsilon,
    slope,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Leaky ReLU of the largest of 2x2 sums of both maps normalised. ``totals`` (4, c) are those of either kind."""
    count = images * height * width
    down, right = height // 2, width // 2
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    window = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = (window[:, None] < images * down * right) & (columns[None, :] < channels)
    scale, shift, other_scale, other_shift = _both_scales_and_shifts(
        totals, weight, bias, other_weight, other_bias, columns, channels, count, epsilon
    )
    tile = _corner(window, height, width, down, right).to(tl.int64)[:, None] * channels + columns[None, :]
    largest = tl.full((ROWS, COLUMNS), float("-inf"), tl.float32)
    for place in tl.static_range(4):
        at = tile + (place // 2 * width + place % 2) * channels
        _, _, both = _sum_at(maps, others, at, inside, scale, shift, other_scale, other_shift)
        largest = tl.maximum(largest, both)
    place = window.to(tl.int64)[:, None] * channels + columns[None, :]
    tl.store(out + place, _leaky(largest, slope).to(out.dtype.element_ty), mask=inside)


@triton.jit
def pooled_gradient_sums(
    gradient,
    maps,
    others,
    sums,
    totals,
    weight,
    bias,
    other_weight,
    other_bias,
    images,
    height,
    width,
    channels,
    epsilon,
    slope,
    chunk,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sums over each chunk of windows of the gradients by sums, and of these times either value: (chunks, 3, c)."""
    count = images * height * width
    down, right = height // 2, width // 2
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    scale, shift, other_scale, other_shift = _both_scales_and_shifts(
        totals, weight, bias, other_weight, other_bias, columns, channels, count, epsilon
    )
    by_bias = tl.zeros((ROWS, COLUMNS), tl.float32)
    by_value = tl.zeros((ROWS, COLUMNS), tl.float32)
    by_other = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, chunk, ROWS):
        window = tl.program_id(0) * chunk + start + tl.arange(0, ROWS)
        inside = (window[:, None] < images * down * right) & (columns[None, :] < channels)
        tile = _corner(window, height, width, down, right).to(tl.int64)[:, None] * channels + columns[None, :]
        largest = tl.full((ROWS, COLUMNS), float("-inf"), tl.float32)
        value = tl.zeros((ROWS, COLUMNS), tl.float32)
        other = tl.zeros((ROWS, COLUMNS), tl.float32)
        for place in tl.static_range(4):
            at = tile + (place // 2 * width + place % 2) * channels
            here, other_here, both = _sum_at(maps, others, at, inside, scale, shift, other_scale, other_shift)
            larger = both > largest
            largest = tl.where(larger, both, largest)
            value = tl.where(larger, here, value)
            other = tl.where(larger, other_here, other)
        place = window.to(tl.int64)[:, None] * channels + columns[None, :]
        by = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        by = tl.where(largest > 0, by, by * slope)
        by_bias += by
        by_value += by * value
        by_other += by * other
    out = sums + tl.program_id(0) * 3 * channels + columns
    tl.store(out, tl.sum(by_bias, 0), mask=columns < channels)
    tl.store(out + channels, tl.sum(by_value, 0), mask=columns < channels)
    tl.store(out + 2 * channels, tl.sum(by_other, 0), mask=columns < channels)


@triton.jit
def _send(out, tile, inside, by, chosen, value, scale, factor, rest):
    """Store the gradient by values of which some were chosen."""
    sent = tl.where(chosen, by, 0.0) * scale + value * factor + rest
    tl.store(out + tile, sent.to(out.dtype.element_ty), mask=inside)


@triton.jit
def add_and_pool_backward(
    gradient,
    maps,
    others,
    out,
    other_out,
    by_weights,
    totals,
    gradient_totals,
    weight,
    bias,
    other_weight,
    other_bias,
    images,
    height,
    width,
    channels,
    epsilon,
    slope,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The gradients by both maps, and by both weights (2, c).

    Where height or width are odd, windows at the lower and right edge are cut off: no gradient goes there, but what
    it owes to the statistics does.
    """
    count = images * height * width
    down, right = (height + 1) // 2, (width + 1) // 2  # cut ones included
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    window = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    there = (window[:, None] < images * down * right) & (columns[None, :] < channels)
    image, place = window // (down * right), window % (down * right)
    row, column = place // right, place % right
    whole = there & ((row < height // 2) & (column < width // 2))[:, None]
    scale, shift, other_scale, other_shift = _both_scales_and_shifts(
        totals, weight, bias, other_weight, other_bias, columns, channels, count, epsilon
    )
    tile = _corner(window, height, width, down, right).to(tl.int64)[:, None] * channels + columns[None, :]
    at_1, at_2, at_3 = tile + channels, tile + width * channels, tile + (width + 1) * channels
    below, beside = there & (2 * row + 1 < height)[:, None], there & (2 * column + 1 < width)[:, None]
    value_0, other_0, largest = _sum_at(maps, others, tile, there, scale, shift, other_scale, other_shift)
    value_1, other_1, both_1 = _sum_at(maps, others, at_1, beside, scale, shift, other_scale, other_shift)
    value_2, other_2, both_2 = _sum_at(maps, others, at_2, below, scale, shift, other_scale, other_shift)
    value_3, other_3, both_3 = _sum_at(maps, others, at_3, below & beside, scale, shift, other_scale, other_shift)
    chosen = tl.where(both_1 > largest, 1, 0)
    largest = tl.maximum(largest, both_1)
    chosen = tl.where(both_2 > largest, 2, chosen)
    largest = tl.maximum(largest, both_2)
    chosen = tl.where(both_3 > largest, 3, chosen)
    largest = tl.maximum(largest, both_3)
    pooled = ((image * (height // 2) + row) * (width // 2) + column).to(tl.int64)[:, None] * channels + columns[None, :]
    by = tl.load(gradient + pooled, mask=whole, other=0.0).to(tl.float32)
    by = tl.where(largest > 0, by, by * slope)

    by_bias = _of_channels(gradient_totals, columns, channels)
    by_value = _of_channels(gradient_totals + channels, columns, channels)
    by_other = _of_channels(gradient_totals + 2 * channels, columns, channels)
    scale, factor, rest, of_weight = _backward_factors(
        totals, weight, by_bias, by_value, columns, channels, count, epsilon
    )
    other_scale, other_factor, other_rest, of_other_weight = _backward_factors(
        totals + 2 * channels, other_weight, by_bias, by_other, columns, channels, count, epsilon
    )
    _send(out, tile, there, by, chosen == 0, value_0, scale, factor, rest)
    _send(out, at_1, beside, by, chosen == 1, value_1, scale, factor, rest)
    _send(out, at_2, below, by, chosen == 2, value_2, scale, factor, rest)
    _send(out, at_3, below & beside, by, chosen == 3, value_3, scale, factor, rest)
    _send(other_out, tile, there, by, chosen == 0, other_0, other_scale, other_factor, other_rest)
    _send(other_out, at_1, beside, by, chosen == 1, other_1, other_scale, other_factor, other_rest)
    _send(other_out, at_2, below, by, chosen == 2, other_2, other_scale, other_factor, other_rest)
    _send(other_out, at_3, below & beside, by, chosen == 3, other_3, other_scale, other_factor, other_rest)
    if tl.program_id(0) == 0:
        tl.store(by_weights + columns[None, :], of_weight, mask=columns[None, :] < channels)
        tl.store(by_weights + channels + columns[None, :], of_other_weight, mask=columns[None, :] < channels)


@triton.jit
def _patches(images, pixel, count, height, width, INPUTS: tl.constexpr, SIZE: tl.constexpr, KERNEL: tl.constexpr):
    """What a kernel sees around each pixel, (pixels, KERNEL), in the order of a kernel (size, size, inputs)."""
    element = tl.arange(0, KERNEL)
    tap = element // INPUTS
    down, right = tap // SIZE - SIZE // 2, tap % SIZE - SIZE // 2
    row = (pixel // width % height)[:, None] + down[None, :]
    column = (pixel % width)[:, None] + right[None, :]
    inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
    inside = inside & (pixel < count)[:, None] & (element < SIZE * SIZE * INPUTS)[None, :]
    place = (pixel[:, None] + (down * width + right)[None, :]) * INPUTS + (element % INPUTS)[None, :]
    return tl.load(images + place, mask=inside, other=0.0)


@triton.jit
def convolve_thin(
    images,
    kernel,
    out,
    count,
    height,
    width,
    outputs,
    INPUTS: tl.constexpr,
    SIZE: tl.constexpr,
    KERNEL: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Convolution of images of a few channels with a kernel (outputs, size, size, inputs)."""
    pixel = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    element, length = tl.arange(0, KERNEL), SIZE * SIZE * INPUTS
    inside = (element < length)[:, None] & (columns < outputs)[None, :]
    weights = tl.load(kernel + columns[None, :] * length + element[:, None], mask=inside, other=0.0)
    patches = _patches(images, pixel, count, height, width, INPUTS, SIZE, KERNEL).to(weights.dtype)
    values = tl.dot(patches, weights, input_precision="ieee")
    place = pixel.to(tl.int64)[:, None] * outputs + columns[None, :]
    there = (pixel < count)[:, None] & (columns < outputs)[None, :]
    tl.store(out + place, values.to(out.dtype.element_ty), mask=there)


@triton.jit
def convolve_thin_backward(
    gradient,
    images,
    sums,
    count,
    height,
    width,
    outputs,
    chunk,
    INPUTS: tl.constexpr,
    SIZE: tl.constexpr,
    KERNEL: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The gradient by the kernel, summed over each chunk of pixels, into (chunks, outputs, KERNEL)."""
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    element = tl.arange(0, KERNEL)
    total = tl.zeros((COLUMNS, KERNEL), tl.float32)
    for start in range(0, chunk, ROWS):
        pixel = tl.program_id(0) * chunk + start + tl.arange(0, ROWS)
        there = (pixel < count)[:, None] & (columns < outputs)[None, :]
        place = pixel.to(tl.int64)[:, None] * outputs + columns[None, :]
        by = tl.load(gradient + place, mask=there, other=0.0)
        patches = _patches(images, pixel, count, height, width, INPUTS, SIZE, KERNEL).to(by.dtype)
        total = tl.dot(tl.trans(by), patches, total, input_precision="ieee")
    out = sums + (tl.program_id(0) * outputs + columns[:, None]) * KERNEL + element[None, :]
    tl.store(out, total, mask=(columns < outputs)[:, None] & (element < KERNEL)[None, :])
