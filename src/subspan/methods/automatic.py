"""Method ``"auto"``: which method suits what is known of the base session.

On real features (docs/results.md) calibrated prototypes lead plain ones at the last session, and these the subspace
regularizer, which needs nothing but the head.
"""

from collections.abc import Collection

from .registry import create_method

AUTO = "auto"
PREFERRED = ("calibrated", "prototype", "subspace")  # best first; the last needs nothing


def automatic_method(given: Collection[str]) -> str:
    """The best method for a base session of which this much is given: ``"means"``, ``"covariance"``.

    >>> automatic_method({"means"})
    'prototype'
    """
    return next(spec for spec in PREFERRED if create_method(spec).needs <= set(given))
