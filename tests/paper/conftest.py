"""What the tests of the laboratory share."""

from made_results import result, weight_space

__all__ = ["result", "weight_space"]
