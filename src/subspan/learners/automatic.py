"""Method ``"auto"``: which method suits what is known of the base session.

On real features (docs/results-multi-session.md) calibrated prototypes lead plain ones at the last session, and these
the subspace regularizer, which needs nothing but the head. The options of `calibrated` are those that hold on all
development features, of our networks and of a pretrained one; its own defaults are the best on those of recipe `paper`.
"""

from collections.abc import Collection

from subspan.learners.registry import create_method

AUTO = "auto"
PREFERRED = ("calibrated:shrinkage=3,offset=0.02", "prototype", "subspace")  # best first; the last needs nothing
FEW_FEATURES = 16  # in fewer dimensions classes lie one behind the other, which directions alone do not tell apart


def automatic_method(given: Collection[str], width: int) -> str:
    """The best method for features of this width and a base session of which this is given.

    ``given`` may hold ``"means"`` and ``"covariance"``.

    >>> automatic_method({"means"}, width=640)
    'prototype'
    >>> automatic_method({"means", "covariance"}, width=4)
    'subspace'
    """
    if width < FEW_FEATURES:
        return PREFERRED[-1]
    return next(spec for spec in PREFERRED if create_method(spec).needs <= set(given))
