"""Subspan: teach a trained classifier new classes from a handful of examples, without retraining and without forgetting."""

__version__ = "0.1.0"
