"""Feature files: what a trained network says of a split, as arrays."""

from subspan.features.feature_set import FeatureFileError, FeatureSet, Precision, bundled

__all__ = ["FeatureFileError", "FeatureSet", "Precision", "bundled"]
