"""The log of a service, which nobody outside can fill: of one kind of line a few are written, the rest is counted."""

import logging
import time
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from uvicorn.config import LOGGING_CONFIG

from subspan.serve.rate import RateLimit

BURST, RATE = 10, 1 / 60  # lines of one kind at once, and a second in the long run


class Thinned(logging.Filter):
    """At most so many lines from one place of the code; the next one says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._limit, self._left_out = RateLimit(RATE, BURST, clock), Counter[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        place = f"{record.pathname}:{record.lineno}"
        if self._limit.wait(place):
            self._left_out[place] += 1
            return False
        if count := self._left_out.pop(place, 0):
            record.msg, record.args = f"{record.getMessage()} (and {count} more of this kind, left out)", ()
        return True


def log_config() -> dict[str, Any]:
    """uvicorn's, for everything that is logged; only the access log, for whoever asks for it, is written whole."""
    config = deepcopy(LOGGING_CONFIG)
    config["filters"] = {"thinned": {"()": Thinned}}
    config["handlers"]["default"]["filters"] = ["thinned"]
    config["root"] = {"handlers": ["default"], "level": "WARNING"}
    return config
