"""Splits: which classes are base and novel, and which images train, validate, support and test."""
