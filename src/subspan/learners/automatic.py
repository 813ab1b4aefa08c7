"""Method ``"auto"``: `posterior` wherever the base session has examples, or means and a covariance of them.

It is one rule for features, photographs and feature files, and what it adapts it adapts from the base session's data.
A head alone has no means: then `subspace`, which needs nothing but the head; with means only, `prototype`.
"""

from collections.abc import Collection

from subspan.learners.registry import create_method

PREFERRED = ("posterior", "prototype", "subspace")  # best first; the last needs nothing
FEW_FEATURES = 16  # in fewer dimensions classes lie one behind the other, which directions alone do not tell apart


def automatic_method(given: Collection[str], width: int) -> str:
    """The best method for features of this width and a base session of which this is given.

    ``given`` may hold ``"means"`` and ``"covariance"``; examples give both.

    >>> automatic_method({"means", "covariance"}, width=4)
    'posterior'
    >>> automatic_method({"means"}, width=640)
    'prototype'
    """
    best = next(spec for spec in PREFERRED if create_method(spec).needs <= set(given))
    return PREFERRED[-1] if best == "prototype" and width < FEW_FEATURES else best
