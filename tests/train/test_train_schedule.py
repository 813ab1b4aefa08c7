"""Learning rates against hand values."""

import math

import numpy as np

from subspan.train.recipe import Recipe, find_recipe
from subspan.train.schedule import learning_rates


def test_cuts_of_the_paper() -> None:
    rates = learning_rates(find_recipe("paper"), 468)
    assert len(rates) == 46_800
    np.testing.assert_allclose(
        rates[[0, 60 * 468 - 1, 60 * 468, 80 * 468 - 1, 80 * 468, -1]], [0.05] * 2 + [0.005] * 2 + [0.0005] * 2
    )


def test_half_a_cosine() -> None:
    rates = learning_rates(Recipe(schedule="cosine", epochs=2), 2)
    np.testing.assert_allclose(
        rates, [0.05, 0.025 * (1 + math.cos(math.pi / 4)), 0.025, 0.025 * (1 - math.cos(math.pi / 4))], rtol=1e-6
    )
