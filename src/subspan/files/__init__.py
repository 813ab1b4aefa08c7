"""Files that are checked and atomic: arrays, and the versioned store."""
