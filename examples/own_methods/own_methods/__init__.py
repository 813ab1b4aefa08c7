"""Four methods of one's own, one file each."""
