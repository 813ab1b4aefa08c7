"""The error a catalogue raises."""


class CatalogueError(ValueError):
    """What was asked of a catalogue cannot be done; the message says why, and the catalogue is as it was."""
