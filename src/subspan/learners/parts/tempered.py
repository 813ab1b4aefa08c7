"""Log densities of a model that believes in more independent features than there are, made probabilities to act on.

A Gaussian in d dimensions is far too sure: what is left of a photograph in one dimension has much to do with the rest.
By how much grows with how far apart it takes classes to be. So log densities are divided by a temperature in proportion
to that distance, which follows from sums alone, and needs no example. How clear a photograph is differs from one to the
next, so that shares are averaged over temperatures about that one.

Both constants were read off the calibration of left-out base photographs and of the test photographs of the four
development sets; those of the familiarity off their test photographs (docs/tried.md): on other sets they are unproven.
"""

import numpy as np

from subspan.arrays import Array, functions_of
from subspan.learners.parts.vectors import log_sum

PER_DISTANCE = 0.85  # the temperature, in distances between classes in units of the noise, at `DIMENSIONS`
DIMENSIONS = 1280
SPREAD = 0.4  # standard deviation of the temperature's logarithm
NODES = ((-(3**0.5), 1 / 6), (0.0, 2 / 3), (3**0.5, 1 / 6))  # Gauss and Hermite's for a normal: places and weights


def temperature_of(level: float, noise: float, dimensions: int) -> float:
    """Of classes whose means vary by ``level`` and examples by ``noise``, along each dimension."""
    distance = (dimensions * level / noise) ** 0.5
    return max(1.0, PER_DISTANCE * (dimensions / DIMENSIONS) ** 0.25 * distance)


def tempered(densities: Array, temperature: Array) -> Array:
    """Logarithms of probabilities (..., C) from log densities (..., C); their order stays.

    >>> np.exp(tempered(np.array([[30.0, 0.0]]), np.array(10.0))).round(2)
    array([[0.94, 0.06]])
    """
    functions = functions_of(densities)
    found = None
    for place, weight in NODES:
        shares = densities / (temperature * float(np.exp(SPREAD * place)))
        shares = shares - log_sum(shares)[..., None] + float(np.log(weight))
        found = shares if found is None else functions.logaddexp(found, shares)
    return found
