"""Probabilities that mean something, and the answer "none of these".

The default method's scores are probabilities; for the others a temperature is fitted on photographs of known classes
that no row was learned from. On the same ones the threshold is taken.

A photograph is rejected when its *familiarity* is below a threshold: the logarithm of the sum over classes of how much
better each explains it than a class never seen would (the default method), or of the exponentials of its class scores
(the others; the free energy of Liu et al., NeurIPS 2020). The latter is not generally better than the greatest score.

**What the threshold promises.** With n held-out photographs and a share a, the threshold is the floor(a (n + 1))-th
smallest of their familiarities. A further photograph of the same kind (drawn like them: same classes in the same
proportion, same camera) is rejected with probability at most a, whatever the model and the distribution (split
conformal prediction). It promises nothing about any one class, nothing about classes taught later, of which nothing was
held out, and nothing about how many photographs of unknown classes are noticed: the trade-off curve measures that.
"""

import math

import numpy as np
from numpy.typing import NDArray

from subspan.arrays import FloatArray
from subspan.learners.parts.vectors import log_sum

COLDEST, HOTTEST = 0.01, 100.0


def fit_temperature(scores: FloatArray, labels: NDArray[np.int64]) -> float:
    """The T for which softmax(scores / T) gives the true labels (n,) the greatest likelihood; scores (n, C).

    n right answers do not prove that the next one is right: as in Platt's scaling, the true class is wanted with
    probability (n + 1) / (n + 2) and the rest spread over the others.

    >>> scores = np.array([[2.0, 0.0]] * 30)  # says the first class with odds of exp(2): 88 %
    >>> T = fit_temperature(scores, np.array([0] * 20 + [1] * 10))
    >>> np.exp(log_shares(scores / T))[0].round(2).tolist()
    [0.66, 0.34]
    """
    count, classes = scores.shape
    wanted = np.full(scores.shape, 1 / (count + 2) / max(classes - 1, 1))
    wanted[np.arange(count), labels] = (count + 1) / (count + 2)
    # The likelihood is concave in 1/T, and this is its slope there, so that halving finds T to 13 digits. scipy has
    # faster ways, which take longer to import than a photograph to answer.
    cold, hot = math.log(COLDEST), math.log(HOTTEST)
    for _ in range(45):
        middle = (cold + hot) / 2
        too_sure = ((np.exp(log_shares(scores / math.exp(middle))) - wanted) * scores).sum() > 0
        cold, hot = (middle, hot) if too_sure else (cold, middle)
    return math.exp((cold + hot) / 2)


def log_shares(scores: FloatArray) -> FloatArray:
    """The logarithm of every class's share in the sum of the exponentials of scores, (n, C)."""
    return scores - log_sum(scores)[:, None]


def threshold_for(familiarities: FloatArray, share: float) -> float | None:
    """Reject below this: at most ``share`` of known photographs are; None where (n,) are too few to promise it.

    >>> known = np.arange(1.0, 100.0)
    >>> threshold_for(known, 0.05), threshold_for(known[:10], 0.05)
    (5.0, None)
    """
    count = len(familiarities)
    rank = min(math.floor(share * (count + 1) + 1e-9), count)  # a share next to 1 rounds beyond the last
    return None if rank < 1 else float(np.sort(familiarities)[rank - 1])
