"""Many pieces of work that have nothing to do with one another: over the cores of a machine, or over a Ray cluster.

A piece of work is a call ``work(shared, item)`` of a function of some module: ``shared`` goes to every process once.
Results do not depend on where the pieces run.

On a cluster each item is one task without side effects, run again by Ray as often as its machine is lost. Results go by
the number of their item, so that none is lost and none counts twice.
"""

import multiprocessing
import os
import pickle
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from subspan.experiments.fan_out import worker
from subspan.experiments.inputs import ProtocolError
from subspan.extras import ray_cluster
from subspan.values import check_options, option

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Placement:
    """Where work runs."""

    device: str = option("cpu", "cpu or cuda")
    workers: int | None = option(None, "processes; default one per core, one on a GPU")
    ray: bool = option(False, "fan out over a Ray cluster (RAY_ADDRESS, else the one running here, else a new one)")

    def __post_init__(self) -> None:
        cuda = self.device.startswith("cuda")
        # Whether there is a GPU is a question to the machines of a cluster, not to this one.
        if self.device != "cpu" and not (cuda and (self.ray or torch.cuda.is_available())):
            raise ProtocolError(f"device must be cpu, or cuda where there is a GPU; got '{self.device}'")
        check_options(self, at_least={1: ("workers",)}, error=ProtocolError)


def nothing(*_: object) -> None:
    """What is called where nobody listens."""


def fan_out(
    work: Callable[[Any, Item], Result],
    shared: Any,
    items: Sequence[Item],
    placement: Placement,
    *,
    cost: Callable[[Item], Any] | None = None,
    on_result: Callable[[int, Result], object] = nothing,
) -> list[Result]:
    """One result per item, in their order.

    Parameters
    ----------
    work : a function at the top of a module.
    cost : items of a higher cost start first: long ones leave no core idle at the end.
    on_result : called here with number and result of an item as soon as it is done, each item once.
    """
    order = list(range(len(items)))
    if cost is not None:
        order.sort(key=lambda i: cost(items[i]), reverse=True)
    workers = min(placement.workers or (1 if placement.device != "cpu" else os.cpu_count() or 1), len(items))
    if placement.ray:
        done = _on_ray(work, shared, items, order, gpu=placement.device != "cpu")
    elif workers > 1:
        done = _in_pool(work, shared, items, order, workers)
    else:
        done = ((i, work(shared, items[i])) for i in order)
    results: dict[int, Result] = {}
    with closing(done):
        for i, result in done:
            results[i] = result
            on_result(i, result)
    return [results[i] for i in range(len(items))]


def with_notes(call: Callable[[], Result]) -> tuple[Result, tuple[str, ...]]:
    """The result of a call, and what it warned of, each sentence once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    return result, tuple(dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning)))


def _in_pool(
    work: Work, shared: Any, items: Sequence[Any], order: Sequence[int], workers: int
) -> Generator[tuple[int, Any], None, None]:
    """Number and result of every item, as they are done."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        os._exit(1)  # a worker that runs its program's script from the top: the program says why it ended
    context = multiprocessing.get_context("spawn")
    jobs, begun = context.Queue(), context.Semaphore(0)
    lifeline, held = context.Pipe(duplex=False)
    # Not among the arguments: a process that ends before it has read those leaves its program waiting for ever.
    job = pickle.dumps((work, shared))
    jobs.cancel_join_thread()
    for _ in range(workers):
        jobs.put(job)
    first = (worker.Lifeline(lifeline), begun, jobs)
    try:
        with ProcessPoolExecutor(workers, context, worker.start, first) as pool, held:
            waiting = {pool.submit(worker.run, items[i]): i for i in order}
            for future in as_completed(waiting):
                yield waiting[future], future.result()
    except BrokenProcessPool as error:
        if not begun.acquire(block=False):
            raise ProtocolError(
                f"none of {workers} worker processes began: each imports the script first, in which everything that "
                'starts them belongs below `if __name__ == "__main__":`'
            ) from error
        raise ProtocolError(
            f"one of {workers} worker processes ended abruptly; where memory ran out, fewer of them need less"
        ) from error


def _on_ray(
    work: Work, shared: Any, items: Sequence[Any], order: Sequence[int], *, gpu: bool
) -> Generator[tuple[int, Any], None, None]:
    """Number and result of every item, as they are done."""
    with ray_cluster() as ray:
        task = ray.remote(num_cpus=1, num_gpus=1 if gpu else 0, max_retries=-1)(_run_one)
        reference = ray.put(shared)  # held by this process: it outlives every other machine
        waiting = {task.remote(work, reference, items[i]): i for i in order}
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=1.0)
            for one in done:
                yield waiting.pop(one), ray.get(one)


def _run_one(work: Work, shared: Any, item: Any) -> Any:
    torch.set_num_threads(1)  # as in the processes of a pool, so that sums run in the same order
    return work(shared, item)
