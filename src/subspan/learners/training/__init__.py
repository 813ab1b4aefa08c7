"""What systems share that train: parts on the base classes, networks in sessions, and both together."""
