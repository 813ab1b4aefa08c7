"""The learning rate of every step, computed before the training starts so that a step only looks it up."""

import math

import numpy as np
from numpy.typing import NDArray

from subspan.train.recipe import Recipe


def learning_rates(recipe: Recipe, steps_per_epoch: int) -> NDArray[np.float32]:
    """Rates (epochs * steps_per_epoch,): constant between cuts, or half a cosine that reaches zero after the last step.

    >>> learning_rates(Recipe(epochs=3, cuts=(1, 2)), 1).tolist()
    [0.05000000074505806, 0.004999999888241291, 0.0005000000237487257]
    """
    total = recipe.epochs * steps_per_epoch
    step = np.arange(total)
    if recipe.schedule == "cuts":
        passed = np.searchsorted(np.asarray(recipe.cuts, dtype=np.int64), step // steps_per_epoch, side="right")
        rates = recipe.learning_rate * np.power(recipe.cut_factor, passed.astype(np.float64))
    else:
        rates = recipe.learning_rate * 0.5 * (1 + np.cos(math.pi * step / total))
    return rates.astype(np.float32)
