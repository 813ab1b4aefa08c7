"""Operations of a network in training that PyTorch's own leave slow on a GPU; each with its gradient; needs Triton.

Between convolutions a GPU waits for memory, not for arithmetic: batch normalisation and leaky ReLU are one operation
here, and so is the end of a block, where two normalised maps are added and the largest of every 2x2 is taken. And two
kinds of convolutions: of images, whose three channels leave matrix units idle, and of maps whose channels do not fill
tiles. Maps lie with their channels last. The numbers are those of the plain operations, rounded less often. The kernels
are in fused_kernels.py.
"""

from typing import Any

import torch
from torch import Tensor
from torch.library import custom_op
from torch.nn import functional
from triton import cdiv, next_power_of_2

from . import fused_kernels

kernels: Any = fused_kernels  # launched by an index, as no function is
_PROGRAMS = 264  # that sum over rows: two for each multiprocessor of an H200; twice as many where several maps are read


@custom_op("subspan::normalise", mutates_args=())
def normalise(maps: Tensor, weight: Tensor, bias: Tensor, epsilon: float, slope: float) -> tuple[Tensor, Tensor]:
    """Leaky ReLU of maps (n, c, h, w) normalised by their own statistics, and their sums of values and squares (2, c).

    A slope of 1 leaves the ReLU out. No gradient goes through the sums.
    """
    maps = _channels_last(maps)
    count, channels = _rows(maps)
    totals = _value_totals(maps)
    out = torch.empty_like(maps)
    grid, tile = _even_tiles(count, channels, 8192)
    with torch.cuda.device_of(maps):
        kernels.normalise[grid](maps, out, totals, weight, bias, count, channels, epsilon, slope, **tile)
    return out, totals


@custom_op("subspan::normalise_backward", mutates_args=())
def _normalise_backward(
    gradient: Tensor, maps: Tensor, totals: Tensor, weight: Tensor, bias: Tensor, epsilon: float, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by the maps, weight and bias."""
    gradient, maps = _channels_last(gradient), _channels_last(maps)
    count, channels = _rows(maps)
    grid, chunk, tile = _chunks(count, channels, 4096, 2 * _PROGRAMS)
    sums = totals.new_empty(grid[0], 2, channels)
    out, by_weight = torch.empty_like(maps), torch.empty_like(weight)
    shape = count, channels, epsilon, slope
    with torch.cuda.device_of(maps):
        kernels.gradient_sums[grid](gradient, maps, sums, totals, weight, bias, *shape, chunk, **tile)
        gradient_totals = _column_sums(sums)
        grid, tile = _even_tiles(count, channels, 4096)
        kernels.normalise_backward[grid](
            gradient, maps, out, by_weight, totals, gradient_totals, weight, bias, *shape, **tile
        )
    return out, by_weight, gradient_totals[0]


@custom_op("subspan::add_and_pool", mutates_args=())
def add_and_pool(
    maps: Tensor,
    weight: Tensor,
    bias: Tensor,
    others: Tensor,
    other_weight: Tensor,
    other_bias: Tensor,
    epsilon: float,
    slope: float,
) -> tuple[Tensor, Tensor]:
    """Two kinds of maps (n, c, h, w) normalised, added, leaky ReLU, the largest of every 2x2: (n, c, h // 2, w // 2).

    Beside it the sums of values and squares of both, (4, c), through which no gradient goes.
    """
    maps, others = _channels_last(maps), _channels_last(others)
    images, channels, height, width = maps.shape
    totals = _value_totals(maps, others)
    out = _pooled_like(maps)
    grid, tile = _tiles(_rows(out)[0], channels, 512, _columns(channels))
    shape = images, height, width, channels, epsilon, slope
    with torch.cuda.device_of(maps):
        kernels.add_and_pool[grid](maps, others, out, totals, weight, bias, other_weight, other_bias, *shape, **tile)
    return out, totals


@custom_op("subspan::add_and_pool_backward", mutates_args=())
def _add_and_pool_backward(
    gradient: Tensor,
    maps: Tensor,
    weight: Tensor,
    bias: Tensor,
    others: Tensor,
    other_weight: Tensor,
    other_bias: Tensor,
    totals: Tensor,
    epsilon: float,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients by both maps, both weights (2, c), and either bias."""
    gradient, maps, others = _channels_last(gradient), _channels_last(maps), _channels_last(others)
    images, channels, height, width = maps.shape
    grid, chunk, tile = _chunks(_rows(gradient)[0], channels, 512, 2 * _PROGRAMS)
    sums = totals.new_empty(grid[0], 3, channels)
    out, other_out, by_weights = torch.empty_like(maps), torch.empty_like(others), totals.new_empty(2, channels)
    parameters = weight, bias, other_weight, other_bias
    shape = images, height, width, channels, epsilon, slope
    with torch.cuda.device_of(maps):
        kernels.pooled_gradient_sums[grid](gradient, maps, others, sums, totals, *parameters, *shape, chunk, **tile)
        gradient_totals = _column_sums(sums)
        grid, tile = _tiles(images * cdiv(height, 2) * cdiv(width, 2), channels, 256, 64, warps=2)
        kernels.add_and_pool_backward[grid](
            gradient, maps, others, out, other_out, by_weights, totals, gradient_totals, *parameters, *shape, **tile
        )
    return out, other_out, by_weights, gradient_totals[0]


@custom_op("subspan::track", mutates_args=("running_mean", "running_var", "batches"))
def track(
    totals: Tensor, running_mean: Tensor, running_var: Tensor, batches: Tensor, count: int, momentum: float
) -> None:
    """Move running statistics (c,) towards those of a batch, from its sums (2, c) over so many values."""
    channels = len(running_mean)
    with torch.cuda.device_of(totals):
        kernels.track[(cdiv(channels, 128),)](
            totals, running_mean, running_var, batches, channels, count, momentum, COLUMNS=128
        )


@custom_op("subspan::convolve_thin", mutates_args=())
def convolve_thin(images: Tensor, kernel: Tensor) -> Tensor:
    """Images (n, i, h, w) by an odd square kernel (o, i, k, k), padded so as to keep their size; in the kernel's type.

    For images of a few channels; they get no gradient.
    """
    images = _channels_last(images)
    (count, inputs), outputs = _rows(images), len(kernel)
    out = _maps_like(images, outputs, kernel.dtype)
    flat, sizes = kernel.permute(0, 2, 3, 1).contiguous(), _thin_sizes(kernel)
    with torch.cuda.device_of(images):
        grid = cdiv(count, sizes["ROWS"]), cdiv(outputs, sizes["COLUMNS"])
        kernels.convolve_thin[grid](images, flat, out, count, *images.shape[2:], outputs, inputs, **sizes)
    return out


@custom_op("subspan::convolve_thin_backward", mutates_args=())
def _convolve_thin_backward(gradient: Tensor, images: Tensor, kernel: Tensor) -> Tensor:
    """The gradient by the kernel."""
    gradient, images = _channels_last(gradient), _channels_last(images)
    (count, inputs), (outputs, _, size, _) = _rows(images), kernel.shape
    if size > 1:  # cuDNN is faster here
        return _by_kernel(gradient, images.to(gradient.dtype), kernel)
    sizes = _thin_sizes(kernel)
    columns = cdiv(outputs, sizes["COLUMNS"])
    chunk = _chunk(count, _PROGRAMS // columns, sizes["ROWS"])
    sums = gradient.new_empty(cdiv(count, chunk), outputs, sizes["KERNEL"], dtype=torch.float32)
    with torch.cuda.device_of(images):
        kernels.convolve_thin_backward[len(sums), columns](
            gradient, images, sums, count, *images.shape[2:], outputs, chunk, inputs, **sizes
        )
    flat = _column_sums(sums)[:, :inputs].to(kernel.dtype)
    return _channels_last(flat[:, :, None, None])


@custom_op("subspan::convolve", mutates_args=())
def convolve(maps: Tensor, kernel: Tensor) -> Tensor:
    """Maps (n, i, h, w) by an odd square kernel (o, i, k, k), padded so as to keep their size.

    The gradient by the maps is computed as what it is, a convolution with the turned kernel: cuDNN has good kernels for
    convolutions of any channels, and for their gradients only where these are multiples of 64.
    """
    return _channels_last(functional.conv2d(maps, kernel, padding=kernel.shape[-1] // 2))


@custom_op("subspan::convolve_backward", mutates_args=())
def _convolve_backward(gradient: Tensor, maps: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients by maps and kernel."""
    turned = _channels_last(kernel.flip(2, 3).transpose(0, 1))
    by_maps = functional.conv2d(_channels_last(gradient), turned, padding=kernel.shape[-1] // 2)
    return _channels_last(by_maps), _by_kernel(gradient, maps, kernel)


def _by_kernel(gradient: Tensor, maps: Tensor, kernel: Tensor) -> Tensor:
    """The gradient by a kernel, as cuDNN computes it."""
    side, mask = [kernel.shape[-1] // 2] * 2, [False, True, False]
    form = None, [1, 1], side, [1, 1], False, [0, 0], 1, mask
    return _channels_last(torch.ops.aten.convolution_backward(_channels_last(gradient), maps, kernel, *form)[1])


def _channels_last(maps: Tensor) -> Tensor:
    return maps.contiguous(memory_format=torch.channels_last)


def _rows(maps: Tensor) -> tuple[int, int]:
    """Rows and channels of maps."""
    return maps.numel() // maps.shape[1], maps.shape[1]


def _maps_like(maps: Tensor, channels: int, dtype: torch.dtype) -> Tensor:
    images, _, height, width = maps.shape
    return maps.new_empty((images, height, width, channels), dtype=dtype).permute(0, 3, 1, 2)


def _pooled_like(maps: Tensor) -> Tensor:
    images, channels, height, width = maps.shape
    return maps.new_empty((images, height // 2, width // 2, channels)).permute(0, 3, 1, 2)


def _value_totals(*kinds: Tensor) -> Tensor:
    """Sums of values and squares of each kind of maps, (2 kinds, c)."""
    count, channels = _rows(kinds[0])
    grid, chunk, tile = _chunks(count, channels, 2048, _PROGRAMS)
    sums = kinds[0].new_empty((grid[0], 2 * len(kinds), channels), dtype=torch.float32)
    with torch.cuda.device_of(sums):
        for i, maps in enumerate(kinds):
            part = sums[:, 2 * i :]
            kernels.value_sums[grid](maps, part, sums.stride(0), count, channels, chunk, **tile, num_warps=8)
    return _column_sums(sums)


def _column_sums(sums: Tensor) -> Tensor:
    """Sums over the first axis."""
    out = sums.new_empty(sums.shape[1:])
    with torch.cuda.device_of(sums):
        grid, form = (cdiv(out.numel(), 16),), {"ROWS": 256, "COLUMNS": 16, "num_warps": 8}
        kernels.column_sums[grid](sums, out, len(sums), out.numel(), **form)
    return out


# The sides of tiles are those that were fastest on an H200, of a few that were tried.


def _even_tiles(count: int, channels: int, otherwise: int) -> tuple[tuple[int, int], dict[str, int]]:
    """Tiles of 32 rows and 64 channels, or, where these do not fill them, of whole rows and so many values."""
    if channels % 64 == 0:
        return _tiles(count, channels, 2048, 64)
    return _tiles(count, channels, otherwise, min(next_power_of_2(channels), 256), warps=8)


def _tiles(
    count: int, channels: int, size: int, columns: int, warps: int = 4
) -> tuple[tuple[int, int], dict[str, int]]:
    """Tiles of so many values over rows and channels: how many, their sides, and the warps of each."""
    rows = size // columns
    return (cdiv(count, rows), cdiv(channels, columns)), {"ROWS": rows, "COLUMNS": columns, "num_warps": warps}


def _chunks(count: int, channels: int, size: int, programs: int) -> tuple[tuple[int, int], int, dict[str, int]]:
    """Chunks of rows that programs sum over: how many, rows of each, and the sides of their tiles."""
    columns = _columns(channels)
    rows, blocks = size // columns, cdiv(channels, columns)
    chunk = _chunk(count, programs // blocks, rows)
    return (cdiv(count, chunk), blocks), chunk, {"ROWS": rows, "COLUMNS": columns}


def _columns(channels: int) -> int:
    return 64 if channels % 64 == 0 else min(next_power_of_2(channels), 32)


def _chunk(count: int, most: int, rows: int) -> int:
    """Rows of a chunk, whole tiles, where there are to be no more chunks than that."""
    return cdiv(cdiv(count, max(1, most)), rows) * rows


def _thin_sizes(kernel: Tensor) -> dict[str, int]:
    outputs, inputs, size, _ = kernel.shape
    length = max(16, next_power_of_2(size * size * inputs))  # a matrix unit takes no fewer
    return {"SIZE": size, "KERNEL": length, "ROWS": 128, "COLUMNS": min(64, max(16, next_power_of_2(outputs)))}


# What each operation gives, without computing it, and its gradient.


@normalise.register_fake
def _(maps: Tensor, weight: Tensor, bias: Tensor, epsilon: float, slope: float) -> tuple[Tensor, Tensor]:
    maps = _channels_last(maps)
    return torch.empty_like(maps), weight.new_empty(2, maps.shape[1])


@_normalise_backward.register_fake
def _(
    gradient: Tensor, maps: Tensor, totals: Tensor, weight: Tensor, bias: Tensor, epsilon: float, slope: float
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(_channels_last(maps)), torch.empty_like(weight), torch.empty_like(bias)


@add_and_pool.register_fake
def _(maps: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _pooled_like(maps), weight.new_empty(4, maps.shape[1])


@_add_and_pool_backward.register_fake
def _(gradient: Tensor, maps: Tensor, weight: Tensor, bias: Tensor, others: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    both = torch.empty_like(_channels_last(maps)), torch.empty_like(_channels_last(others))
    return *both, weight.new_empty(2, maps.shape[1]), torch.empty_like(bias)


@track.register_fake
def _(*_: Any) -> None:
    return None


@convolve_thin.register_fake
def _(images: Tensor, kernel: Tensor) -> Tensor:
    return _maps_like(images, len(kernel), kernel.dtype)


@_convolve_thin_backward.register_fake
def _(gradient: Tensor, images: Tensor, kernel: Tensor) -> Tensor:
    return _channels_last(torch.empty_like(kernel))


@convolve.register_fake
def _(maps: Tensor, kernel: Tensor) -> Tensor:
    return _maps_like(maps, len(kernel), maps.dtype)


@_convolve_backward.register_fake
def _(gradient: Tensor, maps: Tensor, kernel: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(_channels_last(maps)), torch.empty_like(_channels_last(kernel))


def _keep_normalised(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    maps, weight, bias, ctx.epsilon, ctx.slope = inputs
    ctx.save_for_backward(maps, output[1], weight, bias)


def _by_normalised(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return *_normalise_backward(gradient, *ctx.saved_tensors, ctx.epsilon, ctx.slope), None, None


def _keep_pooled(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.epsilon, ctx.slope = inputs
    ctx.save_for_backward(*tensors, output[1])


def _by_pooled(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    by, by_other, by_weights, by_bias = _add_and_pool_backward(gradient, *ctx.saved_tensors, ctx.epsilon, ctx.slope)
    return by, by_weights[0], by_bias, by_other, by_weights[1], by_bias.clone(), None, None


def _keep_both(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _by_thin_kernel(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
    return None, _convolve_thin_backward(gradient, *ctx.saved_tensors)


def _by_convolved(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
    return _convolve_backward(gradient, *ctx.saved_tensors)


normalise.register_autograd(_by_normalised, setup_context=_keep_normalised)
add_and_pool.register_autograd(_by_pooled, setup_context=_keep_pooled)
convolve_thin.register_autograd(_by_thin_kernel, setup_context=_keep_both)
convolve.register_autograd(_by_convolved, setup_context=_keep_both)
