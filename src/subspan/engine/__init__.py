"""The mathematics of an incremental session: one objective, span coordinates, and two solvers on them."""

from subspan.engine.objective import (
    Penalty,
    Problem,
    RowGroup,
    Solution,
    append_one,
    concatenate,
    mean_weights,
    standing_still,
)
from subspan.engine.optimum import optimum
from subspan.engine.sgd import SgdOptions, sgd

__all__ = [
    "Penalty",
    "Problem",
    "RowGroup",
    "SgdOptions",
    "Solution",
    "append_one",
    "concatenate",
    "mean_weights",
    "optimum",
    "sgd",
    "standing_still",
]
