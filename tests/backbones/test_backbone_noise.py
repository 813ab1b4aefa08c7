"""Hashed noise: uniform, independent between keys, the same however it is drawn."""

import numpy as np
import torch
from scipy import stats

from subspan.backbones.parts.noise import fold, make_key, uniform, uniform_like


def test_numbers_are_uniform() -> None:
    numbers = uniform(make_key(3), torch.arange(100_000)).numpy()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert stats.kstest(numbers, "uniform").pvalue > 1e-3


def test_neighbouring_keys_and_positions_are_uncorrelated() -> None:
    position = torch.arange(50_000)
    first, second = (uniform(fold(make_key(0), step), position).numpy() for step in (10, 11))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.02
    # A hash of position xor key alone would give permutations of one another.
    assert not np.array_equal(np.sort(first), np.sort(second))


def test_every_seed_and_step_has_a_key_of_its_own() -> None:
    keys = {int(key) for seed in range(100) for key in fold(make_key(seed), torch.arange(100))}
    assert len(keys) > 9_990  # 10,000 draws of 2^32 collide with probability 0.01
    assert int(make_key(1)) != int(make_key(1 + (1 << 32)))


def test_a_number_depends_on_its_position_only() -> None:
    key = make_key(5)
    whole = uniform_like(key, torch.empty(4, 6))
    assert torch.equal(whole.view(-1)[10:14], uniform(key, torch.arange(10, 14)))


def test_step_may_be_a_tensor() -> None:
    assert torch.equal(fold(make_key(1), 7), fold(make_key(1), torch.tensor(7)))


def test_global_random_state_is_neither_read_nor_moved() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = uniform(make_key(1), torch.arange(8))
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(1)
    assert torch.equal(first, uniform(make_key(1), torch.arange(8)))
