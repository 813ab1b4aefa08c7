"""Data that comes with the package: real features of one split, and class names."""
