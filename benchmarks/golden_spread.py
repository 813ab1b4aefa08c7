"""Why six rows of the golden file cannot be met to 1e-6: plain float64 loops that differ in rounding alone.

Session 1 of subspace-qr without memory, R_old as `norm`, on the features of the golden file, by NumPy on full weights.
Every line is the same mathematics: the basis by one QR routine or another, the projection as one product or as two, the
gradient of the subspace penalty as 2 r or as 2 (r - P r), the norm by `numpy.linalg.norm` or as a root of a sum.

Measured 2026-11-15, one run, NumPy on one core: the sixteen loops stop after 825 to 984 steps, no two at the same place
(851, 880, 894, 984, 944, 932, 901, 934, 837, 864, 874, 957, 931, 846, 825, 929). The golden file says 951.

    python benchmarks/golden_spread.py tests/data/mini-split1.npz
"""

import argparse
from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]

WAYS, SHOTS = 5, 5
RATE, MOMENTUM, DECAY, BETA, GAMMA = 0.002, 0.9, 5e-4, 0.2, 1.0
MAX_STEPS, TOLERANCE, PATIENCE = 1000, 1e-4, 10

BASES: dict[str, Callable[[Array], Array]] = {
    "torch": lambda rows: torch.linalg.qr(torch.from_numpy(rows.T))[0].numpy(),
    "numpy": lambda rows: np.linalg.qr(rows.T)[0],
}
NORMS: dict[str, Callable[[Array], float]] = {
    "norm": lambda change: float(np.linalg.norm(change)),
    "root": lambda change: float(np.sqrt((change**2).sum())),
}


def steps_taken(
    base: Array, support: Array, labels: NDArray[np.int64], basis: str, products: int, twice: bool, norm: str
) -> int:
    """Steps until the stop rule ends the session."""
    q = BASES[basis](base)
    projector = q @ q.T
    rows = np.concatenate([base, np.zeros((WAYS, base.shape[1]))])
    truth = np.eye(len(rows))[labels]
    velocity, before, small = np.zeros_like(rows), np.inf, 0
    for step in range(1, MAX_STEPS + 1):
        logits = support @ rows.T
        shifted = logits - logits.max(1, keepdims=True)
        total = np.exp(shifted).sum(1, keepdims=True)
        gradient = ((np.exp(shifted) / total - truth) / len(labels)).T @ support
        loss = -((shifted - np.log(total)) * truth).sum(1).mean()
        change = rows[: len(base)] - base
        length = NORMS[norm](change)
        if length > 0:
            gradient[: len(base)] += BETA * change / length
        novel = rows[len(base) :]
        outside = novel - (novel @ projector if products == 1 else (novel @ q) @ q.T)
        gradient[len(base) :] += 2 * GAMMA * (outside - outside @ projector if twice else outside)
        loss += BETA * length + GAMMA * (outside**2).sum()
        velocity = MOMENTUM * velocity + gradient + DECAY * rows
        rows = rows - RATE * velocity
        small = small + 1 if abs(loss - before) < TOLERANCE else 0
        if small == PATIENCE:
            return step
        before = loss
    return MAX_STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", help="mini-split1.npz of tests/data")
    arrays = np.load(parser.parse_args().features)
    base = arrays["base_weight"].astype(np.float64)
    support = arrays["novel_support"][:WAYS, :SHOTS].astype(np.float64)
    labels = len(base) + np.repeat(np.arange(WAYS), support.shape[1] * support.shape[2])
    support = support.reshape(-1, base.shape[1])
    print("QR      products  gradient     norm   steps")
    for basis, products, twice, norm in product(BASES, (1, 2), (False, True), NORMS):
        steps = steps_taken(base, support, labels, basis, products, twice, norm)
        print(f"{basis:7} {products:8}  {'2 (r - P r)' if twice else '2 r':11}  {norm}  {steps:5}", flush=True)


if __name__ == "__main__":
    main()
