"""What the tests of reports share."""

from made_results import result, weight_space

__all__ = ["result", "weight_space"]
