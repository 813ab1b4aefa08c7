"""Waiting for what another process or thread does, for long enough that a busy machine is no fault."""

import time
from collections.abc import Callable

PATIENCE = 120.0  # seconds


def wait_until(condition: Callable[[], object], what: str = "a condition", seconds: float = PATIENCE) -> None:
    """Return once the condition holds; fail with what was waited for."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds:g} s for {what}"
        time.sleep(0.01)
