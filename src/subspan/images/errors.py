"""The one error that data files, images and splits raise."""


class DataError(ValueError):
    """Data that cannot be taken: the message names the file or value and the rule it breaks, in one sentence."""
