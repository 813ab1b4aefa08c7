"""Independent seeds for the parts of a run, each a pure function of the run's seed and what it is for."""

import hashlib


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A seed of 63 bits for a purpose, such as ``("order", epoch)``.

    >>> derive_seed(1, "order", 0) != derive_seed(1, "order", 1)
    True
    """
    text = repr((seed, *purpose)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1


def member_seed(seed: int, member: int) -> int:
    """The seed of a member of a joined network, counted from 0."""
    return derive_seed(seed, "member", member)
