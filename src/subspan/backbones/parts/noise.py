"""Random numbers as a pure function of (key, position), and seeds as one of (seed, purpose).

A step that is compiled, captured in a CUDA graph, killed and resumed, or spread over processes must draw the same
numbers. So numbers are hashed from a key tensor that lives on the device (made of a seed, a step count and a stream)
instead of being taken from a generator, the same on every device. All arithmetic is on int32, which wraps; right shifts
are masked because int32 shifts keep the sign.
"""

import hashlib

import torch
from torch import Tensor

# Multipliers of a well-mixing 32-bit finaliser (bias search of C. Wellons' hash prospector), as signed integers.
_FIRST, _SECOND = 0x21F0AAAD, 0xD35A2D97 - (1 << 32)
_GOLDEN = 0x9E3779B9 - (1 << 32)


def _mix(x: Tensor) -> Tensor:
    """Bijective scrambling of int32, any shape."""
    x = (x ^ ((x >> 16) & 0xFFFF)) * _FIRST
    x = (x ^ ((x >> 15) & 0x1FFFF)) * _SECOND
    return x ^ ((x >> 15) & 0x1FFFF)


def fold(key: Tensor, value: Tensor | int) -> Tensor:
    """A new int32 key () from a key () and an integer; folding different values gives unrelated keys."""
    return _mix((key ^ (_signed(value) if isinstance(value, int) else value.to(torch.int32))) + _GOLDEN)


def make_key(seed: int, device: torch.device | str = "cpu") -> Tensor:
    """The int32 key () of a seed."""
    return fold(fold(torch.zeros((), dtype=torch.int32, device=device), seed), seed >> 32)


def uniform(key: Tensor, position: Tensor) -> Tensor:
    """float32 numbers in [0, 1), one per int32 position, any shape, on the device of ``position``."""
    # Two rounds: with one, the numbers of two keys would be permutations of one another.
    bits = _mix(_mix(position.to(torch.int32)) ^ key)
    return ((bits >> 8) & 0xFFFFFF).to(torch.float32) * (1.0 / (1 << 24))


def uniform_like(key: Tensor, x: Tensor) -> Tensor:
    """float32 numbers in [0, 1) of the shape (n, c, ...) of ``x``, drawn with channels last, as maps lie in memory."""
    images, channels, *sides = x.shape
    position = torch.arange(x.numel(), dtype=torch.int32, device=x.device)
    return uniform(key, position).view(images, *sides, channels).movedim(-1, 1)


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A seed of 63 bits for a purpose, such as ``("order", epoch)``."""
    return int.from_bytes(hashlib.sha256(repr((seed, *purpose)).encode()).digest()[:8], "little") >> 1
