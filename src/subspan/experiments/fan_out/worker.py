"""The worker's side of `fan_out`: one process among several, which goes when the program does, without a word.

Nothing slow is imported here: a process that is still importing PyTorch must hear that the program has gone, too.
"""

import os
import pickle
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_job: dict[str, Any] = {}


class Lifeline:
    """One end of a pipe of which the program holds the other; a worker is tied to it as soon as it arrives there."""

    def __init__(self, end: Connection) -> None:
        self._end = end

    def __reduce__(self) -> tuple[Callable[[Connection], None], tuple[Connection]]:
        return _tie, (self._end,)


def _tie(end: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all: the program answers
    threading.Thread(target=_end_with, args=(end,), daemon=True).start()


def _end_with(end: Connection) -> None:
    """End in the middle of work when the program lets go of the other end: done, stopped, or killed without a word."""
    end.poll(None)
    os._exit(1)


def start(lifeline: object, begun: Any, jobs: Any) -> None:
    """What a process does first: say so, and take one of ``jobs``; ``lifeline``, unpickled, has tied it by now."""
    begun.release()
    work, shared = pickle.loads(jobs.get())  # nosec B301 # of the process that started this one
    import torch

    torch.set_num_threads(1)
    _job.update(work=work, shared=shared)


def run(item: Any) -> Any:
    return _job["work"](_job["shared"], item)
