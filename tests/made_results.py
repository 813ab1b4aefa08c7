"""Results as a protocol would leave them, small and made up."""

from collections.abc import Callable

import numpy as np
import pytest

from subspan.experiments.records import WeightSpace
from subspan.experiments.results import MethodResult

MakeResult = Callable[..., MethodResult]


def make_weight_space(moving: bool, base: int = 12, novel: int = 5, seed: int = 0) -> WeightSpace:
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(base, 16))
    novel_rows = generator.normal(size=(novel, 16))
    return WeightSpace(
        base=rows,
        novel=novel_rows,
        targets=novel_rows * 0.7 if moving else rows[:novel],
        base_names=tuple(f"base {i}" for i in range(base)),
        novel_names=tuple(f"novel {i}" for i in range(novel)),
        moving=moving,
    )


def make_result(
    method: str = "finetune",
    memory: bool = False,
    draws: int = 5,
    sessions: int = 3,
    level: float = 60.0,
    confusion: bool = True,
    weight_space: WeightSpace | None = None,
    splits: list[int] | None = None,
    notes: tuple[str, ...] = (),
    seed: int = 0,
) -> MethodResult:
    generator = np.random.default_rng(seed)
    counts = tuple(6 + 2 * session for session in range(sessions + 1))
    base = level - 4.0 * np.arange(sessions + 1) + generator.normal(0, 1, (draws, sessions + 1))
    novel = level - 30.0 + generator.normal(0, 1, (draws, sessions + 1))
    novel[:, 0] = np.nan
    return MethodResult(
        method=method,
        memory=memory,
        class_counts=counts,
        accuracy=base - 10.0,
        class_mean=base - 11.0,
        base=base,
        novel=novel,
        novel_session_mean=novel,
        steps=np.full((draws, sessions), 100.0),
        seconds=1.25,
        protocol="0123abcd",
        splits=np.asarray(splits if splits is not None else [0] * draws, dtype=np.int64),
        forgetting=np.repeat([[np.nan] + [3.0] * sessions], draws, axis=0),
        confusion=_confusion(counts, generator) if confusion else None,
        weight_space=weight_space,
        notes=notes,
    )


def _confusion(counts: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    confusion = np.zeros((len(counts), counts[-1], counts[-1]), dtype=np.int64)
    for session, count in enumerate(counts):
        confusion[session, :count, :count] = generator.poisson(1.0, (count, count)) + 10 * np.eye(count, dtype=np.int64)
    return confusion


@pytest.fixture(scope="session")
def result() -> MakeResult:
    return make_result


@pytest.fixture(scope="session")
def weight_space() -> Callable[..., WeightSpace]:
    return make_weight_space
