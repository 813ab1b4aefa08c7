"""Work on a Ray cluster (extra ``ray``). A machine that dies takes nothing with it: its work is done again elsewhere.

Each item is one task without side effects, run again by Ray as often as its machine is lost. Results go by the number
of their item, so that none is lost and none counts twice.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch

from subspan.experiments.inputs import ProtocolError

WAIT_SECONDS = 1.0


def on_ray(
    work: Callable[[Any, Any, Callable[[], object]], Any],
    shared: Any,
    items: Sequence[Any],
    order: Sequence[int],
    on_tick: Callable[[], object],
    *,
    gpu: bool,
) -> Generator[tuple[int, Any], None, None]:
    """Number and result of every item, as they are done; parts of an item are told when it is."""
    try:
        import ray
        from ray.exceptions import RayTaskError
    except ImportError as error:
        raise ProtocolError(
            f"--ray needs the package ray ({error}); install it with: pip install 'subspan[ray]'"
        ) from None
    began_here = not ray.is_initialized()
    if began_here:
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    try:
        task = ray.remote(num_cpus=1, num_gpus=1 if gpu else 0, max_retries=-1)(_run_one)
        reference = ray.put(shared)  # held by this process: it outlives every other machine
        waiting = {task.remote(work, reference, items[i]): i for i in order}
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=WAIT_SECONDS)
            for one in done:
                result, ticks = ray.get(one)
                for _ in range(ticks):
                    on_tick()
                yield waiting.pop(one), result
    except RayTaskError as error:
        raise error.cause from None
    finally:
        if began_here:
            ray.shutdown()


def _run_one(work: Callable[[Any, Any, Callable[[], object]], Any], shared: Any, item: Any) -> tuple[Any, int]:
    """The result of one item, and how many parts of it were done."""
    torch.set_num_threads(1)  # as in the processes of a pool, so that sums run in the same order
    ticks = []
    result = work(shared, item, lambda: ticks.append(1))
    return result, len(ticks)
