"""The mathematics of an incremental session: one objective, span coordinates, and two solvers on them."""
